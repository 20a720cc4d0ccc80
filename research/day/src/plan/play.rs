//! How each kind of conversation of the day is played.

use super::*;
use std::ops::Range;

/// Who talks when, and the numbers that decide how.
struct Turn {
    number: usize,
    time: u64,
    /// In seconds.
    now: u64,
    who: usize,
    /// Every eighth host uses IPv6.
    six: bool,
    ephemeral: u16,
    /// Of the client, and its delay to the tap.
    host: u16,
    delay: u64,
    rng: Xoshiro,
    /// When the conversation starts.
    start: u64,
    /// Outside any conversation.
    packets: Vec<(u64, Vec<u8>)>,
}

impl Turn {
    fn new(settings: &Settings, number: usize, entry: &Entry) -> Turn {
        let mut rng = Xoshiro::new(settings.seed, 1000 + number as u64);
        let who = rng.below(settings.clients.max(1));
        let ephemeral = 32_768 + rng.below(28_000) as u16;
        let delay = MS / 2 + rng.below(MS as usize) as u64;
        Turn {
            number,
            time: entry.time,
            now: settings.epoch() + entry.time / SECOND,
            who,
            six: who.is_multiple_of(8),
            ephemeral,
            host: client(who),
            delay,
            rng,
            start: entry.time,
            packets: Vec::new(),
        }
    }

    fn talk(
        &mut self,
        client: IpAddr,
        server: IpAddr,
        port: u16,
        delays: (u64, u64),
        messages: Vec<Message>,
    ) -> Conversation {
        let rng = &mut self.rng;
        Conversation {
            client: SocketAddr::new(client, self.ephemeral),
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
            midway: self.time < 30 * SECOND,
            path_mtu: (rng.below(100) == 0).then_some(1400),
            messages,
        }
    }
}

impl World {
    /// The traffic of `entry`, the `number`th. Entries must be played in order, since clients
    /// remember what they have cached.
    pub(crate) fn play(&mut self, number: usize, entry: &Entry) -> io::Result<Played> {
        let mut on = Turn::new(&self.settings, number, entry);
        let conversation = match &entry.what {
            What::Web { outbound, ranks } => Some(self.web(&mut on, *outbound, ranks)?),
            What::Tls { up, down } => Some(self.tls(&mut on, *up, *down)),
            What::Share { documents } => Some(self.share(&mut on, documents)?),
            What::Mail { attachment } => Some(self.mail(&mut on, *attachment)?),
            What::Replication { snapshot, members, branch } => {
                Some(self.replication(&mut on, *snapshot, members, *branch)?)
            }
            What::Update => Some(self.update(&mut on)),
            What::Ping { pop } => {
                World::ping(&mut on, *pop);
                None
            }
            What::Telemetry => {
                World::telemetry(&mut on);
                None
            }
        };
        let rng = Xoshiro::new(self.settings.seed ^ 0xf10e, number as u64);
        let conversation = conversation.map(|conversation| (on.start, conversation, rng));
        Ok(Played { packets: on.packets, conversation })
    }

    /// A visit of the web: objects with these ranks.
    fn web(&mut self, on: &mut Turn, outbound: bool, ranks: &[u32]) -> io::Result<Conversation> {
        let mut dice = Xoshiro::new(self.settings.seed ^ 0xd1ce, on.number as u64);
        // All objects of a visit are on the server of the first object. Popular objects are
        // on several servers.
        let server =
            (mix(u64::from(ranks[0])) as usize + dice.below(2)) % self.settings.servers.max(1);
        let pop = if outbound { dice.below(PUBLIC) } else { server % PUBLIC };
        let (asker, askers_host) = match outbound {
            true => {
                let host = 0x1000 + dice.below(400) as u16;
                (outside(pop, host, on.six), 0x8000 | (pop as u16) << 12 | host & 0xfff)
            }
            false => (inside(on.host, on.six), on.host),
        };
        let host = if outbound {
            format!("www{}.example.com", server % 3)
        } else {
            format!("www{server}.example.net")
        };
        let address = if outbound {
            inside(10 + (server % 3) as u16, on.six)
        } else {
            outside(pop, 0x0a00 + server as u16, on.six)
        };
        if !outbound && dice.chance(0.5) {
            self.look_up(on.time, on.host, &host, address, &mut dice, &mut on.packets);
            on.start += 40 * MS;
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
            let resource = Resource { host: &host, path, identity: identity(path), now: on.now };
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
            messages.push(Message { from_client: false, pause: dice.below(40) as u64 * MS, bytes });
        }
        let far = POPS[pop].3 * MS;
        let delays = if outbound { (far, on.delay) } else { (on.delay, far) };
        Ok(on.talk(asker, address, 80, delays, messages))
    }

    /// Encrypted content.
    fn tls(&self, on: &mut Turn, up: u32, down: u32) -> Conversation {
        let mut dice = Xoshiro::new(self.settings.seed ^ 0x715, on.number as u64);
        let pop = dice.below(PUBLIC);
        let host = dice.below(60);
        let name = format!("app{host}.example.edu");
        let address = outside(pop, 0x1400 + host as u16, on.six);
        if dice.chance(0.4) {
            self.look_up(on.time, on.host, &name, address, &mut dice, &mut on.packets);
            on.start += 40 * MS;
        }
        let messages = talk::tls(&mut dice, &name, up as usize, down as usize);
        on.talk(inside(on.host, on.six), address, 443, (on.delay, POPS[pop].3 * MS), messages)
    }

    /// Documents of a file share.
    fn share(&self, on: &mut Turn, documents: &[u32]) -> io::Result<Conversation> {
        let mut dice = Xoshiro::new(self.settings.seed ^ 0x5b, on.number as u64);
        let mut files = Vec::new();
        for &document in documents {
            files.push(self.document(document as usize, on.time)?);
        }
        let messages = talk::smb(&mut dice, &files);
        let server = outside(DATACENTRE, 0x20 + dice.below(3) as u16, false);
        Ok(on.talk(
            inside(on.host, false),
            server,
            445,
            (on.delay, POPS[DATACENTRE].3 * MS),
            messages,
        ))
    }

    /// A mail with an attachment.
    fn mail(&self, on: &mut Turn, attachment: u32) -> io::Result<Conversation> {
        let mut dice = Xoshiro::new(self.settings.seed ^ 0x6a11, on.number as u64);
        let object = self.attachments[attachment as usize];
        let content = self.catalog.read(object, u64::MAX)?;
        let text = self.catalog.read(*dice.pick(&self.web), 700)?;
        let name =
            self.catalog.objects[object].name.rsplit('/').next().unwrap_or("file").to_owned();
        let (from, to) = (format!("user{}", dice.below(300)), format!("user{}", on.who));
        let mail = Mail {
            from: &from,
            to: &to,
            number: mix(on.number as u64),
            now: on.now,
            text: &text,
            attachment: (&name, &content),
        };
        let messages = talk::smtp(&mail);
        let (pop, site) = (dice.below(PUBLIC), inside(25, false));
        let relay = outside(pop, 0x1900 + dice.below(4) as u16, false);
        let far = POPS[pop].3 * MS;
        Ok(match dice.chance(0.4) {
            true => on.talk(site, relay, 25, (on.delay, far), messages),
            false => on.talk(relay, site, 25, (far, on.delay), messages),
        })
    }

    /// Parts of a snapshot, to a mirror.
    fn replication(
        &self,
        on: &mut Turn,
        snapshot: u32,
        members: &Range<usize>,
        branch: bool,
    ) -> io::Result<Conversation> {
        let mut files = Vec::new();
        for &object in &self.snapshots[snapshot as usize][members.clone()] {
            let mut content = self.catalog.read(object, REPLICA_PART)?;
            // Without real versions, each run edits every seventh file.
            if self.catalog.archives.is_empty() && object.is_multiple_of(7) {
                edit(&mut content, object as u64, snapshot as usize);
            }
            files.push((self.catalog.objects[object].name.clone(), content));
        }
        let pop = if branch { BRANCH } else { DATACENTRE };
        let messages = talk::rsync("mirror", &files);
        Ok(on.talk(
            inside(40, false),
            outside(pop, 0x40, false),
            873,
            (on.delay, POPS[pop].3 * MS),
            messages,
        ))
    }

    /// The update that every machine fetches.
    fn update(&self, on: &mut Turn) -> Conversation {
        let (name, content) = &self.package;
        let messages = talk::update("updates.example.net", name, content, on.now);
        let server = outside(0, 0x0a80, on.six);
        on.talk(inside(on.host, on.six), server, 80, (on.delay, POPS[0].3 * MS), messages)
    }

    /// An echo request and its reply.
    fn ping(on: &mut Turn, pop: usize) {
        let (from, to) = (inside(5, false), outside(pop, 0x0a00, false));
        let mut rest = vec![0, 7];
        rest.extend((on.number as u16).to_be_bytes());
        rest.extend(0x10..0x48u8);
        let there = Route { from, to, id: on.number as u16, ttl: 63 };
        let back = Route { from: to, to: from, id: on.number as u16, ttl: 54 };
        on.packets.push((on.time, wire::icmp(there, 8, 0, &rest)));
        on.packets.push((on.time + 2 * POPS[pop].3 * MS, wire::icmp(back, 0, 0, &rest)));
    }

    /// Counters of a router.
    fn telemetry(on: &mut Turn) {
        let mut text = String::new();
        for port in 0..40 {
            let (octets, packets) = (on.rng.below(1 << 30), on.rng.below(1 << 20));
            text += &format!(
                "interface=ge-0/0/{port} time={} octets_in={octets} packets_in={packets} errors=0\n",
                on.now
            );
        }
        let route = Route {
            from: inside(1, false),
            to: outside(DATACENTRE, 0x50, false),
            id: on.number as u16,
            ttl: 63,
        };
        // Larger than a packet: fragments a few microseconds apart.
        let pieces = wire::fragments(wire::udp(route, (50_000, 2003), text.as_bytes()), wire::MTU);
        on.packets.extend(
            pieces.into_iter().enumerate().map(|(i, piece)| (on.time + i as u64 * 12_000, piece)),
        );
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
