//! Every public capture of the data set against its index, which another program made, and against
//! tcpdump.
//!
//! The data set is found through `ONCEWIRE_DATA`, or as `shared/data` beside the workspace. Without
//! it nothing is tested.

use std::{collections::HashMap, env, fs, path::PathBuf, process::Command};

use oncewire_packet::{
    CaptureError, CaptureReader, Counters, Dissector, Layer, Limits, Skipped, Transport,
};

fn data() -> Option<PathBuf> {
    let data = env::var_os("ONCEWIRE_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    if data.join("index.tsv").exists() {
        Some(data)
    } else {
        oncewire_testkit::skipped!("no data set; set ONCEWIRE_DATA");
        None
    }
}

#[derive(Debug, Default)]
struct Sums {
    packets: u64,
    captured: u64,
    wire: u64,
    cut: bool,
    error: Option<String>,
    tcp: u64,
    udp: u64,
    /// Fragments that were held, completed a datagram, or were of no use.
    fragments: u64,
    /// Packets with an IPv4 and with an IPv6 header.
    ipv4: u64,
    ipv6: u64,
    encapsulated: u64,
    counters: Counters,
    unused: HashMap<Skipped, u64>,
}

fn sums(file: &[u8]) -> Sums {
    let mut sums = Sums::default();
    let mut reader = CaptureReader::new(file).expect("a capture");
    let mut dissector = Dissector::new(Limits::default());
    while let Some(record) = reader.next() {
        let record = match record {
            Ok(record) => record,
            Err(CaptureError::Cut { .. }) => {
                sums.cut = true;
                break;
            }
            Err(e) => {
                sums.error = Some(e.to_string());
                break;
            }
        };
        sums.packets += 1;
        sums.captured += record.data.len() as u64;
        sums.wire += u64::from(record.wire_len);
        match dissector.dissect(&record) {
            Ok(d) => {
                let total = u64::from(d.headers)
                    + d.payload.len() as u64
                    + u64::from(d.missing)
                    + u64::from(d.trailer);
                assert_eq!(total, d.wire_len);
                let sum = if matches!(d.transport, Transport::Tcp { .. }) {
                    &mut sums.tcp
                } else {
                    &mut sums.udp
                };
                *sum += d.payload.len() as u64;
                sums.fragments += u64::from(d.layers.contains(Layer::Fragment));
                let packets = 1 + u64::from(d.fragments);
                sums.ipv4 += packets * u64::from(d.layers.contains(Layer::Ipv4));
                sums.ipv6 += packets * u64::from(d.layers.contains(Layer::Ipv6));
                sums.encapsulated += u64::from(d.layers.encapsulations().next().is_some());
            }
            Err(why) => {
                let fragment = matches!(
                    why,
                    Skipped::FragmentHeld
                        | Skipped::FragmentLost
                        | Skipped::Malformed(Layer::Fragment)
                );
                sums.fragments += u64::from(fragment);
                *sums.unused.entry(why).or_default() += 1;
            }
        }
    }
    sums.counters = *dissector.finish();
    sums
}

/// Why we differ from the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// The index stops in front of a tunnel over UDP, of PPP inside GRE, MPLS inside PPP, PBB, NFLOG
    /// and most of 802.11. Payload moves from UDP to what is inside, which may be none of ours (ICMP,
    /// ARP).
    Inside,
    /// The index takes each fragment by itself: the header of the transport from the first, nothing
    /// from the others. We count datagrams made whole, and nothing of those that are not.
    Fragments,
    /// The index takes what was captured, though a length in a header says that there is less or
    /// that there should be more, or a fragment cannot be one.
    Lengths,
    /// The capture says that fewer bytes were on the wire than were captured.
    Raised,
    /// The index refused the only packet, whose length on the wire is half a megabyte. tcpdump
    /// reads it.
    Refused,
}
use Why::{Fragments, Inside, Lengths, Raised, Refused};

/// (file, TCP payload that we find more than the index, UDP payload likewise, why).
const DIFFERENCES: &[(&str, i64, i64, &[Why])] = &[
    ("suricata-verify__decode-teredo-01_input.pcap", 0, -286, &[Inside]),
    ("suricata-verify__output-eve-ftp-data_input.pcap", 0, -510, &[Inside]),
    ("suricata-verify__vxlan-decoder-01_input.pcap", 0, -50, &[Inside]),
    ("suricata-verify__vxlan-decoder-03_vxlan.pcap", 13460, -20492, &[Inside]),
    ("arkime__6-4-gre-ppp-udp-4-dns.pcap", 0, 217, &[Inside]),
    ("arkime__80211http.pcap", 8592, 0, &[Inside]),
    ("arkime__arkime_synthetic.pcap", 0, -286, &[Inside, Lengths]),
    ("arkime__gre-erspan-vxlan.pcap", 57, -491, &[Inside]),
    ("arkime__gtp-iphone.pcap", 11906, -19644, &[Inside]),
    ("arkime__ipv6-gtp6.pcap", 0, -56, &[Inside]),
    ("arkime__nflog.pcap", 1339, 0, &[Inside]),
    ("arkime__socks5-http-302-frag.pcap", 1340, 0, &[Fragments]),
    ("arkime__vxlan.pcap", 0, -948, &[Inside]),
    ("deb-tcpdump__aoe-oobr-1.pcap", 0, 0, &[Raised]),
    ("deb-tcpdump__bgp-addpath.pcap", -231, 0, &[Lengths]),
    ("deb-tcpdump__bgp-bgp_capabilities_print-oobr-1.pcap", -158, 0, &[Lengths]),
    ("deb-tcpdump__bgp-bgp_capabilities_print-oobr-2.pcap", -158, 0, &[Lengths]),
    ("deb-tcpdump__cve-2014-8767-OLSR.pcap", 0, -33, &[Lengths]),
    ("deb-tcpdump__cve-2014-8769-AODV.pcap", 0, -33, &[Lengths]),
    ("deb-tcpdump__dhcp6_reconf_asan.pcap", 0, -42, &[Lengths]),
    ("deb-tcpdump__hoobr_parse_field.pcap", 0, -6, &[Lengths]),
    ("deb-tcpdump__ikev1_id_ipv6_addr_subnet-oobr.pcap", 0, -65, &[Lengths]),
    ("deb-tcpdump__isakmp-delete-segfault.pcap", 0, -138, &[Lengths]),
    ("deb-tcpdump__isakmp-ikev1_n_print-oobr.pcap", 0, -84, &[Lengths]),
    ("deb-tcpdump__isakmp-various-oobr.pcap", 0, -33, &[Fragments, Lengths]),
    ("deb-tcpdump__l2tp-avp-overflow.pcap", 0, -32, &[Lengths]),
    ("deb-tcpdump__ldp-ldp_tlv_print-oobr.pcap", 0, -41, &[Fragments]),
    ("deb-tcpdump__lspping-fec-ldp.pcap", 38, 240, &[Inside]),
    ("deb-tcpdump__lspping-fec-rsvp.pcap", 0, 300, &[Inside]),
    ("deb-tcpdump__nfs-attr-oobr.pcap", 0, -108, &[Lengths]),
    ("deb-tcpdump__olsr-oobr-1.pcap", 0, -76, &[Lengths]),
    ("deb-tcpdump__olsr-oobr-2.pcap", 0, -18, &[Lengths]),
    ("deb-tcpdump__otv-heapoverflow-1.pcap", 0, -26, &[Lengths]),
    ("deb-tcpdump__otv-heapoverflow-2.pcap", 0, -26, &[Lengths]),
    ("deb-tcpdump__ripv2-invalid-length.pcap", 0, -4, &[Lengths]),
    ("deb-tcpdump__rpki-rtr-oobr.pcap", -10, 0, &[Lengths]),
    ("deb-tcpdump__rsvp_uni-oobr-3.pcap", 0, -12, &[Lengths]),
    ("deb-tcpdump__rtp-seg-fault-1.pcapng", 0, -9, &[Lengths]),
    ("deb-tcpdump__rtp-seg-fault-2.pcapng", 0, -72, &[Lengths]),
    ("deb-tcpdump__rx_serviceid_oobr.pcap", 0, -29, &[Lengths]),
    ("deb-tcpdump__rx_ubik-oobr.pcap", 0, -52, &[Lengths]),
    ("deb-tcpdump__tftp-heapoverflow.pcap", 0, -4, &[Lengths]),
    ("deb-tcpdump__udp-length-heapoverflow.pcap", 0, -4, &[Lengths]),
    ("deb-tcpdump__vqp-oobr.pcap", 0, -12, &[Lengths]),
    ("deb-tcpdump__vxlan.pcap", 0, -948, &[Inside]),
    ("deb-tcpdump__wb-oobr.pcap", 0, -42, &[Lengths]),
    ("ndpi__dns_fragmented.pcap", 0, 1153, &[Fragments]),
    ("ndpi__dtls.pcap", 0, -144, &[Inside]),
    ("ndpi__false_positives.pcapng", 513, -2573, &[Inside]),
    ("ndpi__fuzz-2006-06-26-2594.pcap", -78, -5821, &[Fragments, Lengths]),
    ("ndpi__fuzz-2006-09-29-28586.pcap", -1475, 0, &[Fragments, Lengths]),
    ("ndpi__fuzz-2020-02-16-11740.pcap", 0, -8769, &[Fragments, Lengths]),
    ("ndpi__fuzz-2021-10-13.pcap", 0, 0, &[Refused]),
    ("ndpi__ipv6_in_gtp.pcap", 0, -172, &[Inside]),
    ("ndpi__kerberos_fuzz.pcapng", -260, 0, &[Lengths]),
    ("ndpi__ndpi_match_string_subprotocol__error.pcapng", -522, 0, &[Lengths]),
    ("ndpi__quic-fuzz-overflow.pcapng", 0, -1252, &[Lengths]),
    ("ndpi__reasm_crash_anon.pcapng", -170, 0, &[Lengths]),
    ("ndpi__reasm_segv_anon.pcapng", 69896, -74496, &[Inside]),
    ("ndpi__rtmp.pcap", 13503, -15395, &[Inside]),
    ("ndpi__teredo.pcap", 0, -1566, &[Inside]),
    ("pcapplusplus__PacketExamples_GrePackets.pcap", 0, 146, &[Inside]),
    ("pcapplusplus__PacketExamples_Vxlan1.pcap", 0, -106, &[Inside]),
    ("pcapplusplus__PacketExamples_Vxlan2.pcap", 0, -106, &[Inside]),
    ("pcapplusplus__PacketExamples_gtp-u.pcap", 0, -9792, &[Inside]),
    ("pcapplusplus__PacketExamples_ipv6_opt_fragments.pcap", 0, 3939, &[Fragments]),
    ("pcapplusplus__PcapExamples_frag_http_req.pcap", 1336, 0, &[Fragments]),
    ("pcapplusplus__PcapExamples_frag_with_padding.pcap", 0, 9401, &[Fragments]),
    ("pcapplusplus__PcapExamples_ip4_fragments.pcap", 0, 36624, &[Fragments]),
    ("pcapplusplus__PcapExamples_ip6_fragments.pcap", 0, 3486, &[Fragments]),
    ("zeek__Traces_vxlan-overlapping-http-get.pcap", 10286, -12398, &[Inside]),
    ("zeek__Traces_dns-edns-ecs-bad.pcap", 0, -213, &[Lengths]),
    ("zeek__Traces_dns-edns-ecs.pcap", 0, 736, &[Fragments]),
    ("zeek__Traces_erspan.pcap", 44743, 0, &[Fragments]),
    ("zeek__Traces_ipv6-fragmented-dns.pcap", 0, 1806, &[Fragments]),
    ("zeek__Traces_ipv6-reassembly-state-leak.pcap", 0, 62905, &[Fragments]),
    ("zeek__Traces_nflog-http.pcap", 1682, 0, &[Inside]),
    ("zeek__Traces_pbb.pcap", 209, 0, &[Inside]),
    ("zeek__quic_383379789-decrypt-crash.pcap", 0, -20216, &[Lengths]),
    ("zeek__Traces_radiotap.pcap", 0, 443, &[Inside]),
    ("zeek__tcp_reassembly.pcap", -7176, 0, &[Lengths]),
    ("zeek__tunnels_geneve-47101.pcap", 23892, -25684, &[Inside]),
    ("zeek__tunnels_geneve-many-options.pcap", 658, -2174, &[Inside]),
    ("zeek__tunnels_geneve-tagged-udp-packet.pcap", 0, -440, &[Inside]),
    ("zeek__tunnels_geneve.pcap", 0, -660, &[Inside]),
    ("zeek__gtp_gtp2_different_udp_port.pcap", 64562, -67658, &[Fragments, Inside]),
    ("zeek__gtp_gtp9_unknown_or_too_short_payload.pcap", 10080, -10448, &[Fragments, Inside]),
    ("zeek__gtp_gtp_ext_header.pcap", 1448, -1472, &[Fragments, Inside]),
    ("zeek__tunnels_vxlan-encapsulated-http.pcap", 9299, -10203, &[Inside]),
];

#[test]
fn index() {
    let Some(data) = data() else { return };
    let index = fs::read_to_string(data.join("index.tsv")).unwrap();
    let mut lines = index.lines();
    let names: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let (mut files, mut plain) = (0, 0);
    let mut wrong = Vec::new();
    for line in lines {
        let row: HashMap<&str, &str> = names.iter().copied().zip(line.split('\t')).collect();
        let number = |name: &str| row[name].parse::<i64>().unwrap();
        let path = row["path"];
        let s = sums(&fs::read(data.join(path)).unwrap());
        files += 1;

        let c = &s.counters;
        assert_eq!(c.total.packets, s.packets, "{path}");
        assert_eq!(c.total.bytes, s.wire, "{path}");
        assert_eq!(c.total.packets, c.used.packets + c.skipped().packets, "{path}");
        assert_eq!(c.total.bytes, c.used.bytes + c.skipped().bytes, "{path}");
        assert_eq!(s.error, None, "{path}");
        assert_eq!(s.cut, row["fmt"].ends_with("!cut"), "{path}");

        let name = path.trim_start_matches("pcap/");
        let known = DIFFERENCES.iter().find(|known| known.0 == name);
        let (tcp, udp, why) = known.map_or((0, 0, &[][..]), |&(_, tcp, udp, why)| (tcp, udp, why));
        let found = [s.packets, s.captured, s.wire, s.tcp, s.udp].map(|n| n as i64);
        let indexed = ["npkts", "cap_bytes", "wire_bytes", "pay_tcp", "pay_udp"].map(number);
        let more = match why {
            [Raised] => [0, 0, 2, 0, 0],
            [Refused] => [1, 197, 524_501, 0, 0],
            _ => [0, 0, 0, tcp, udp],
        };
        let expected: Vec<i64> = indexed.iter().zip(more).map(|(n, more)| n + more).collect();
        if expected != found {
            wrong.push(format!(
                "{path}: index with known differences {expected:?}, found {found:?}, {:?}",
                s.unused
            ));
        }
        // The reasons show in what we found.
        if why.contains(&Fragments) {
            assert!(c.reassembled + c.fragment_lost.packets > 0, "{path}");
        }
        if why.contains(&Lengths) {
            assert!(
                c.malformed.packets + c.truncated.packets > 0
                    || s.tcp + s.udp < number("pay_bytes") as u64,
                "{path}"
            );
        }
        // Where there is nothing but TCP and UDP over one IP header, addresses are comparable, and
        // fragments.
        if c.skipped().packets == 0 && s.encapsulated == 0 && why.is_empty() {
            plain += 1;
            let found = [s.ipv4, s.ipv6, s.fragments].map(|n| n as i64);
            assert_eq!(["nip4", "nip6", "frags"].map(number), found, "{path}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!(
        "{files} captures, {} with known differences, {plain} of nothing but TCP and UDP",
        DIFFERENCES.len()
    );
    assert!(DIFFERENCES.iter().all(|known| data.join("pcap").join(known.0).exists()));
}

#[test]
fn tcpdump() {
    let Some(data) = data() else { return };
    if Command::new("tcpdump").arg("--version").output().is_err() {
        oncewire_testkit::skipped!("no tcpdump");
        return;
    }
    let (mut agree, mut refused) = (0, 0);
    for entry in fs::read_dir(data.join("pcap")).unwrap() {
        let path = entry.unwrap().path();
        let output = Command::new("tcpdump").args(["--count", "-r"]).arg(&path).output().unwrap();
        // "1 packet", "2 packets".
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let count = text.lines().find_map(|line| line.split_once(" packet")?.0.parse::<u64>().ok());
        // It refuses pcapng files from the interface on that differs from the first in link type or
        // snapshot length.
        let differ = String::from_utf8_lossy(&output.stderr).contains("different from the");
        let found = sums(&fs::read(&path).unwrap()).packets;
        match count {
            Some(count) if !differ => {
                assert_eq!(found, count, "{}", path.display());
                agree += 1;
            }
            _ => {
                assert!(count.is_none_or(|count| count <= found), "{}", path.display());
                refused += 1;
            }
        }
    }
    println!("tcpdump agrees on {agree} captures, and does not read {refused}");
    assert!(refused <= 8);
}
