//! How each kind of conversation of the day is played.

use super::*;

impl World {
    /// The traffic of `entry`, the `number`th. Entries must be played in order, since clients
    /// remember what they have cached.
    pub(crate) fn play(&mut self, number: usize, entry: &Entry) -> io::Result<Played> {
        let mut rng = Xoshiro::new(self.settings.seed, 1000 + number as u64);
        let (time, now) = (entry.time, self.settings.epoch() + entry.time / SECOND);
        let mut played = Played::default();
        let who = rng.below(self.settings.clients.max(1));
        // Every eighth host uses IPv6.
        let six = who.is_multiple_of(8);
        let ephemeral = 32_768 + rng.below(28_000) as u16;
        let (client_host, client_delay) = (client(who), MS / 2 + rng.below(MS as usize) as u64);
        let mut talk = |client: IpAddr,
                        server: IpAddr,
                        port: u16,
                        delays: (u64, u64),
                        messages: Vec<Message>| Conversation {
            client: SocketAddr::new(client, ephemeral),
            server: SocketAddr::new(server, port),
            client_delay: delays.0,
            server_delay: delays.1,
            rate: 600_000 + rng.below(5_000_000) as u64,
            trouble: match rng.below(100) {
                0..3 => Trouble { lost_after: 0.02, lost_before: 0.01, late: 0.03 },
                _ => Trouble { lost_after: 0.002, lost_before: 0.001, late: 0.003 },
            },
            ending: match rng.below(100) {
                0..2 => Ending::Silent,
                2..5 => Ending::Reset,
                _ => Ending::Fin,
            },
            // Connections that existed before the capture began.
            midway: time < 30 * SECOND,
            path_mtu: (rng.below(100) == 0).then_some(1400),
            messages,
        };
        let mut start = time;
        let conversation = match &entry.what {
            What::Web { outbound, ranks } => {
                let mut dice = Xoshiro::new(self.settings.seed ^ 0xd1ce, number as u64);
                // All objects of a visit are on the server of the first object. Popular objects are
                // on several servers.
                let server = (mix(u64::from(ranks[0])) as usize + dice.below(2))
                    % self.settings.servers.max(1);
                let pop = if *outbound { dice.below(PUBLIC) } else { server % PUBLIC };
                let (asker, askers_host) = match outbound {
                    true => {
                        let host = 0x1000 + dice.below(400) as u16;
                        (outside(pop, host, six), 0x8000 | (pop as u16) << 12 | host & 0xfff)
                    }
                    false => (inside(client_host, six), client_host),
                };
                let host = if *outbound {
                    format!("www{}.example.com", server % 3)
                } else {
                    format!("www{server}.example.net")
                };
                let address = if *outbound {
                    inside(10 + (server % 3) as u16, six)
                } else {
                    outside(pop, 0x0a00 + server as u16, six)
                };
                if !outbound && dice.chance(0.5) {
                    self.look_up(time, client_host, &host, address, &mut dice, &mut played.packets);
                    start += 40 * MS;
                }
                let person = mix(u64::from(askers_host));
                let browser = Browser {
                    agent: AGENTS[person as usize % AGENTS.len()],
                    session: mix(person ^ self.settings.seed),
                };
                let mut messages = Vec::new();
                for &rank in ranks {
                    let object = self.web[rank as usize];
                    let path = &self.catalog.objects[object].name;
                    let resource = Resource { host: &host, path, identity: identity(path), now };
                    // Clients revalidate only part of what they have cached.
                    let has = !self.seen.insert((askers_host, rank)) && dice.chance(0.4);
                    let content = self.catalog.read(object, WEB_MAX)?;
                    let request = talk::request(&browser, resource, has);
                    messages.push(Message {
                        from_client: true,
                        pause: dice.below(900) as u64 * MS,
                        bytes: request,
                    });
                    let bytes = talk::response(&browser, resource, has, &content);
                    messages.push(Message {
                        from_client: false,
                        pause: dice.below(40) as u64 * MS,
                        bytes,
                    });
                }
                let far = POPS[pop].3 * MS;
                let delays = if *outbound { (far, client_delay) } else { (client_delay, far) };
                talk(asker, address, 80, delays, messages)
            }
            What::Tls { up, down } => {
                let mut dice = Xoshiro::new(self.settings.seed ^ 0x715, number as u64);
                let pop = dice.below(PUBLIC);
                let host = dice.below(60);
                let name = format!("app{host}.example.edu");
                let address = outside(pop, 0x1400 + host as u16, six);
                if dice.chance(0.4) {
                    self.look_up(time, client_host, &name, address, &mut dice, &mut played.packets);
                    start += 40 * MS;
                }
                let messages = talk::tls(&mut dice, &name, *up as usize, *down as usize);
                talk(
                    inside(client_host, six),
                    address,
                    443,
                    (client_delay, POPS[pop].3 * MS),
                    messages,
                )
            }
            What::Share { documents } => {
                let mut dice = Xoshiro::new(self.settings.seed ^ 0x5b, number as u64);
                let mut files = Vec::new();
                for &document in documents {
                    files.push(self.document(document as usize, time)?);
                }
                let messages = talk::smb(&mut dice, &files);
                let server = outside(DATACENTRE, 0x20 + dice.below(3) as u16, false);
                talk(
                    inside(client_host, false),
                    server,
                    445,
                    (client_delay, POPS[DATACENTRE].3 * MS),
                    messages,
                )
            }
            What::Mail { attachment } => {
                let mut dice = Xoshiro::new(self.settings.seed ^ 0x6a11, number as u64);
                let object = self.attachments[*attachment as usize];
                let content = self.catalog.read(object, u64::MAX)?;
                let text = self.catalog.read(*dice.pick(&self.web), 700)?;
                let name = self.catalog.objects[object]
                    .name
                    .rsplit('/')
                    .next()
                    .unwrap_or("file")
                    .to_owned();
                let (from, to) = (format!("user{}", dice.below(300)), format!("user{who}"));
                let mail = Mail {
                    from: &from,
                    to: &to,
                    number: mix(number as u64),
                    now,
                    text: &text,
                    attachment: (&name, &content),
                };
                let messages = talk::smtp(&mail);
                let (pop, site) = (dice.below(PUBLIC), inside(25, false));
                let relay = outside(pop, 0x1900 + dice.below(4) as u16, false);
                let far = POPS[pop].3 * MS;
                match dice.chance(0.4) {
                    true => talk(site, relay, 25, (client_delay, far), messages),
                    false => talk(relay, site, 25, (far, client_delay), messages),
                }
            }
            What::Replication { snapshot, members, branch } => {
                let mut files = Vec::new();
                for &object in &self.snapshots[*snapshot as usize][members.clone()] {
                    let mut content = self.catalog.read(object, REPLICA_PART)?;
                    // Without real versions, each run edits every seventh file.
                    if self.catalog.archives.is_empty() && object.is_multiple_of(7) {
                        edit(&mut content, object as u64, *snapshot as usize);
                    }
                    files.push((self.catalog.objects[object].name.clone(), content));
                }
                let pop = if *branch { BRANCH } else { DATACENTRE };
                let messages = talk::rsync("mirror", &files);
                talk(
                    inside(40, false),
                    outside(pop, 0x40, false),
                    873,
                    (client_delay, POPS[pop].3 * MS),
                    messages,
                )
            }
            What::Update => {
                let (name, content) = &self.package;
                let messages = talk::update("updates.example.net", name, content, now);
                let server = outside(0, 0x0a80, six);
                talk(inside(client_host, six), server, 80, (client_delay, POPS[0].3 * MS), messages)
            }
            What::Ping { pop } => {
                let (from, to) = (inside(5, false), outside(*pop, 0x0a00, false));
                let mut rest = vec![0, 7];
                rest.extend((number as u16).to_be_bytes());
                rest.extend(0x10..0x48u8);
                let there = Route { from, to, id: number as u16, ttl: 63 };
                let back = Route { from: to, to: from, id: number as u16, ttl: 54 };
                played.packets.push((time, wire::icmp(there, 8, 0, &rest)));
                played.packets.push((time + 2 * POPS[*pop].3 * MS, wire::icmp(back, 0, 0, &rest)));
                return Ok(played);
            }
            What::Telemetry => {
                let mut text = String::new();
                for port in 0..40 {
                    let (octets, packets) = (rng.below(1 << 30), rng.below(1 << 20));
                    text += &format!(
                        "interface=ge-0/0/{port} time={now} octets_in={octets} packets_in={packets} errors=0\n"
                    );
                }
                let route = Route {
                    from: inside(1, false),
                    to: outside(DATACENTRE, 0x50, false),
                    id: number as u16,
                    ttl: 63,
                };
                // Larger than a packet: fragments a few microseconds apart.
                let pieces =
                    wire::fragments(wire::udp(route, (50_000, 2003), text.as_bytes()), wire::MTU);
                played.packets.extend(
                    pieces
                        .into_iter()
                        .enumerate()
                        .map(|(i, piece)| (time + i as u64 * 12_000, piece)),
                );
                return Ok(played);
            }
        };
        played.conversation =
            Some((start, conversation, Xoshiro::new(self.settings.seed ^ 0xf10e, number as u64)));
        Ok(played)
    }

    /// A document's state at `time`; its versions are spread over the day.
    fn document(&self, document: usize, time: u64) -> io::Result<(String, Vec<u8>)> {
        let versions = &self.documents[document];
        let progress = time as f64 / self.settings.end().max(1) as f64;
        // Each document is edited at times of its own.
        let phase = (mix(document as u64) % 1000) as f64 / 1000.0;
        let at = |count: usize| ((progress * count as f64 + phase) as usize).min(count - 1);
        let (version, edits) =
            if versions.len() > 1 { (at(versions.len()), 0) } else { (0, at(4)) };
        let mut content = self.catalog.read(versions[version], u64::MAX)?;
        edit(&mut content, document as u64, edits);
        let name = &self.catalog.objects[versions[0]].name;
        Ok((name.split_once('/').map_or(&name[..], |(_, path)| path).to_owned(), content))
    }

    /// A lookup of `name` by a client at its resolver, which is outside.
    fn look_up(
        &self,
        time: u64,
        host: u16,
        name: &str,
        address: IpAddr,
        rng: &mut Xoshiro,
        packets: &mut Vec<(u64, Vec<u8>)>,
    ) {
        let (from, to) = (inside(host, false), outside(4, 53, false));
        let port = 40_000 + rng.below(20_000) as u16;
        let query = talk::dns_query(rng.next_u64() as u16, name, address.is_ipv6());
        let there = Route { from, to, id: rng.next_u64() as u16, ttl: 63 };
        let back = Route { from: to, to: from, id: rng.next_u64() as u16, ttl: 54 };
        let answer = wire::udp(back, (53, port), &talk::dns_answer(&query, address, 300));
        packets.push((time, wire::udp(there, (port, 53), &query)));
        let answered = time + 2 * POPS[4].3 * MS + MS;
        if rng.chance(0.01) {
            // The client program has exited: port unreachable, with the start of the answer.
            let mut rest = vec![0; 4];
            rest.extend(&answer[wire::ETHERNET..wire::ETHERNET + 28]);
            packets.push((answered + MS, wire::icmp(there, 3, 3, &rest)));
        }
        packets.push((answered, answer));
    }
}

/// Edits `content` as many times as requested. Each edit replaces three passages by others from the
/// same content and inserts a line.
pub(super) fn edit(content: &mut Vec<u8>, document: u64, edits: usize) {
    let mut rng = Xoshiro::new(document, 0xed17);
    for version in 1..=edits {
        for _ in 0..3 {
            let len = (100 + rng.below(900)).min(content.len());
            let (from, to) =
                (rng.below(content.len() - len + 1), rng.below(content.len() - len + 1));
            content.copy_within(from..from + len, to);
        }
        let at = rng.below(content.len() + 1);
        content.splice(
            at..at,
            format!("\nEdited for version {version} of document {document}.\n").into_bytes(),
        );
    }
}
