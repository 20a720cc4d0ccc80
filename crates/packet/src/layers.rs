use std::fmt;

/// Most headers that [`Dissector`](crate::Dissector) reads in one packet, link layer and transport
/// included. A stack of MPLS labels and the extension headers of one IPv6 header count once. Real
/// stacks stay below 16 (GTP-U inside VXLAN inside MPLS has 13).
pub const MAX_LAYERS: usize = 24;

/// A protocol header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "named as their specifications name them, which the functions that read them cite"
)]
pub enum Layer {
    #[default]
    Ethernet,
    Loopback,
    Sll,
    Sll2,
    Nflog,
    Ppi,
    Radiotap,
    Prism,
    Avs,
    Ieee80211,
    Llc,
    Ppp,
    CiscoHdlc,
    Vlan,
    /// IEEE 802.1ad service tag, 0x88a8, or its forerunner 0x9100.
    QinQ,
    /// IEEE 802.1ah backbone service instance tag.
    Pbb,
    Mpls,
    /// An Ethernet pseudowire's control word (RFC 4448).
    Pseudowire,
    Pppoe,
    Ipv4,
    Ipv6,
    Ah,
    Fragment,
    /// IP protocol 4: IPv4 inside IP.
    Ipv4InIp,
    /// IP protocol 41: IPv6 inside IP ("6in4").
    Ipv6InIp,
    /// IP protocol 137.
    MplsInIp,
    EtherIp,
    Gre,
    /// GRE version 1 (RFC 2637).
    Pptp,
    Erspan,
    Vxlan,
    VxlanGpe,
    Geneve,
    GtpU,
    L2tp,
    Teredo,
    Tcp,
    Udp,
}

impl Layer {
    /// A short name for tables and logs, unique and stable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "Ethernet",
            Self::Loopback => "loopback",
            Self::Sll => "SLL",
            Self::Sll2 => "SLL2",
            Self::Nflog => "NFLOG",
            Self::Ppi => "PPI",
            Self::Radiotap => "radiotap",
            Self::Prism => "Prism",
            Self::Avs => "AVS",
            Self::Ieee80211 => "802.11",
            Self::Llc => "LLC",
            Self::Ppp => "PPP",
            Self::CiscoHdlc => "Cisco HDLC",
            Self::Vlan => "VLAN",
            Self::QinQ => "QinQ",
            Self::Pbb => "PBB",
            Self::Mpls => "MPLS",
            Self::Pseudowire => "pseudowire",
            Self::Pppoe => "PPPoE",
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Ah => "AH",
            Self::Fragment => "fragment",
            Self::Ipv4InIp => "IPIP",
            Self::Ipv6InIp => "6in4",
            Self::MplsInIp => "MPLS-in-IP",
            Self::EtherIp => "EtherIP",
            Self::Gre => "GRE",
            Self::Pptp => "PPTP",
            Self::Erspan => "ERSPAN",
            Self::Vxlan => "VXLAN",
            Self::VxlanGpe => "VXLAN-GPE",
            Self::Geneve => "GENEVE",
            Self::GtpU => "GTP-U",
            Self::L2tp => "L2TP",
            Self::Teredo => "Teredo",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }

    /// Whether this header encapsulates packets of another network.
    pub fn is_encapsulation(self) -> bool {
        matches!(
            self,
            Self::Vlan
                | Self::QinQ
                | Self::Pbb
                | Self::Mpls
                | Self::Pseudowire
                | Self::Pppoe
                | Self::Ah
                | Self::Ipv4InIp
                | Self::Ipv6InIp
                | Self::MplsInIp
                | Self::EtherIp
                | Self::Gre
                | Self::Pptp
                | Self::Erspan
                | Self::Vxlan
                | Self::VxlanGpe
                | Self::Geneve
                | Self::GtpU
                | Self::L2tp
                | Self::Teredo
        )
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The headers of one packet, outermost first.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Layers {
    list: [Layer; MAX_LAYERS],
    len: u8,
}

impl Layers {
    /// The layers, outermost first.
    pub fn as_slice(&self) -> &[Layer] {
        &self.list[..usize::from(self.len)]
    }

    /// The layers, outermost first.
    pub fn iter(&self) -> impl Iterator<Item = Layer> + '_ {
        self.as_slice().iter().copied()
    }

    /// Whether `layer` is among them.
    pub fn contains(&self, layer: Layer) -> bool {
        self.as_slice().contains(&layer)
    }

    /// Only those that are [encapsulations](Layer::is_encapsulation), outermost first.
    pub fn encapsulations(&self) -> impl Iterator<Item = Layer> + '_ {
        self.iter().filter(|layer| layer.is_encapsulation())
    }

    /// Appends a layer. Returns `false` if there is no room.
    #[inline]
    pub(crate) fn push(&mut self, layer: Layer) -> bool {
        match self.list.get_mut(usize::from(self.len)) {
            Some(slot) => {
                *slot = layer;
                self.len += 1;
                true
            }
            None => false,
        }
    }
}

impl fmt::Display for Layers {
    /// "Ethernet/VLAN/IPv4/TCP".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, layer) in self.iter().enumerate() {
            write!(f, "{}{layer}", if i == 0 { "" } else { "/" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
