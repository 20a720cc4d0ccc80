//! Which service a packet belongs to, by its ports.

/// Well-known ports with short names, ascending: IANA's registry, and common usage.
const KNOWN: [(u16, &str); 75] = [
    (20, "ftp-data"),
    (21, "ftp"),
    (22, "ssh"),
    (23, "telnet"),
    (25, "smtp"),
    (53, "dns"),
    (67, "dhcp"),
    (68, "dhcp"),
    (69, "tftp"),
    (80, "http"),
    (88, "kerberos"),
    (102, "iso-tsap"),
    (110, "pop3"),
    (111, "sunrpc"),
    (119, "nntp"),
    (123, "ntp"),
    (135, "msrpc"),
    (137, "netbios-ns"),
    (138, "netbios-dgm"),
    (139, "netbios"),
    (143, "imap"),
    (161, "snmp"),
    (162, "snmp"),
    (179, "bgp"),
    (389, "ldap"),
    (443, "https"),
    (445, "smb"),
    (465, "smtps"),
    (500, "ike"),
    (502, "modbus"),
    (514, "syslog"),
    (515, "printer"),
    (546, "dhcpv6"),
    (547, "dhcpv6"),
    (548, "afp"),
    (554, "rtsp"),
    (587, "submission"),
    (623, "ipmi"),
    (631, "ipp"),
    (636, "ldaps"),
    (853, "dns-tls"),
    (873, "rsync"),
    (989, "ftps-data"),
    (990, "ftps"),
    (993, "imaps"),
    (995, "pop3s"),
    (1194, "openvpn"),
    (1433, "mssql"),
    (1521, "oracle"),
    (1723, "pptp"),
    (1883, "mqtt"),
    (1900, "ssdp"),
    (2049, "nfs"),
    (3128, "http-proxy"),
    (3306, "mysql"),
    (3389, "rdp"),
    (3478, "stun"),
    (4500, "ipsec-nat-t"),
    (5060, "sip"),
    (5061, "sips"),
    (5222, "xmpp"),
    (5353, "mdns"),
    (5432, "postgresql"),
    (5671, "amqps"),
    (5672, "amqp"),
    (6379, "redis"),
    (8000, "http-alt"),
    (8001, "http-alt"),
    (8080, "http-alt"),
    (8443, "https-alt"),
    (9092, "kafka"),
    (9418, "git"),
    (11211, "memcached"),
    (27017, "mongodb"),
    (51820, "wireguard"),
];

/// The port that identifies the service of a packet: the well-known one of the two, otherwise the
/// lower.
pub(crate) fn service(source: u16, destination: u16) -> u16 {
    match (name(source).is_some(), name(destination).is_some()) {
        (true, false) => source,
        (false, true) => destination,
        _ => source.min(destination),
    }
}

/// The short name of the service on a well-known port.
pub fn name(port: u16) -> Option<&'static str> {
    KNOWN.binary_search_by_key(&port, |&(known, _)| known).ok().map(|index| KNOWN[index].1)
}

/// A service without its name: `TCP 80`, `UDP 40000`.
pub(crate) fn short(protocol: u8, port: u16) -> String {
    format!("{} {port}", if protocol == 6 { "TCP" } else { "UDP" })
}

/// The label of a service in tables: `tcp/80 http`, `udp/40000`, `tcp/others`.
pub fn label(protocol: u8, port: u16) -> String {
    let protocol = match protocol {
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        other => format!("ip-{other}"),
    };
    match (port, name(port)) {
        (0, _) => format!("{protocol}/others"),
        (_, Some(name)) => format!("{protocol}/{port} {name}"),
        (_, None) => format!("{protocol}/{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_port_names_the_service() {
        assert!(KNOWN.windows(2).all(|two| two[0].0 < two[1].0));
        assert_eq!(service(50000, 443), 443);
        assert_eq!(service(8080, 1024), 8080);
        assert_eq!(service(40000, 30000), 30000);
        assert_eq!(service(80, 53), 53);
        assert_eq!(label(6, 80), "tcp/80 http");
        assert_eq!(label(17, 0), "udp/others");
    }
}
