//! Messages of a connection: requests matched to responses, responses to objects.

use super::caching::{Method, Outcome, Policy, Request};
use super::message::{Fields, Framing, Head, Messages, Parser};
use super::{
    Connection, Half, Hasher, Kind, MAX_PIPELINED, MAX_TYPE_NAME, MAX_TYPES, Object, Role, Sums,
};
use crate::batch::{Direction, FlowKey};
use crate::tcp::{End, Event};
use std::collections::VecDeque;
use xxhash_rust::xxh3::Xxh3;

pub(super) fn event_of(
    flow: &FlowKey,
    connection: &mut Connection,
    side: usize,
    event: Event<'_>,
    sums: &mut Sums,
) {
    let other_between = connection.halves[1 - side].parser.is_between();
    let Connection { halves, requests, in_step } = connection;
    let Half { parser, role, direction, object } = &mut halves[side];
    let held = parser.held();
    let mut tunnel = false;
    let mut out = Exchange {
        flow,
        role,
        direction: *direction,
        object,
        requests,
        in_step,
        other_between,
        tunnel: &mut tunnel,
        sums: &mut *sums,
    };
    match event {
        Event::Start { syn } => {
            if *out.role == Some(Role::Requests) {
                out.requests.clear();
                *out.in_step = true;
            }
            *out.role = None;
            *parser = Parser::new(syn);
        }
        Event::Data(bytes) => parser.data(bytes, &mut out),
        Event::Gap(bytes) => {
            parser.gap(bytes, &mut out);
            *out.in_step = false;
        }
        Event::End(end) => parser.finish(end == End::Fin, &mut out),
    }
    if parser.is_other() && !matches!(event, Event::End(_)) {
        *role = None;
    }
    sums.held = sums.held + parser.held() - held;
    if sums.held > sums.max_held {
        sums.forgotten += 1;
        sums.held -= parser.held();
        parser.forget();
    }
    sums.most_held = sums.most_held.max(sums.held);
    if tunnel {
        for half in halves {
            sums.held -= half.parser.held();
            half.parser.leave();
            half.role = None;
        }
    }
}

pub(super) fn end_connection(key: &FlowKey, mut connection: Connection, sums: &mut Sums) {
    for (side, flow) in [*key, key.reversed()].iter().enumerate() {
        event_of(flow, &mut connection, side, Event::End(End::Evicted), sums);
    }
}

/// Receives the messages of one half of a connection.
struct Exchange<'a> {
    flow: &'a FlowKey,
    role: &'a mut Option<Role>,
    direction: Direction,
    object: &'a mut Option<Box<Object>>,
    requests: &'a mut VecDeque<Request>,
    in_step: &'a mut bool,
    other_between: bool,
    tunnel: &'a mut bool,
    sums: &'a mut Sums,
}

impl Messages for Exchange<'_> {
    fn head(&mut self, head: Head<'_>) -> Framing {
        match head {
            Head::Request { method, target, fields } => {
                *self.role = Some(Role::Requests);
                let request = Request::new(method, target, fields);
                if !*self.in_step && self.other_between {
                    // Earlier requests were answered, or their responses are lost.
                    self.requests.clear();
                    *self.in_step = true;
                }
                if self.requests.len() == MAX_PIPELINED {
                    self.requests.clear();
                    *self.in_step = false;
                } else {
                    self.requests.push_back(request);
                }
                if method == "CONNECT" {
                    Framing::Length(0)
                } else {
                    Framing::of(fields, Framing::Length(0))
                }
            }
            Head::Response { status, fields } => {
                *self.role = Some(Role::Responses);
                if (100..200).contains(&status) && status != 101 {
                    return Framing::Length(0);
                }
                let request = self.requests.pop_front().filter(|_| *self.in_step);
                self.sums.unmatched += u64::from(request.is_none());
                let method = request.map(|request| request.method);
                if status == 101
                    || (method == Some(Method::Connect) && (200..300).contains(&status))
                {
                    *self.tunnel = true;
                    return Framing::Tunnel;
                }
                let framing = match status {
                    204 | 304 => Framing::Length(0),
                    _ if method == Some(Method::Head) => Framing::Length(0),
                    _ => Framing::of(fields, Framing::Close),
                };
                self.begin(status, fields, request);
                framing
            }
        }
    }

    fn body(&mut self, bytes: &[u8]) {
        if let Some(object) = self.object {
            object.hash.0.update(bytes);
            object.bytes += bytes.len() as u64;
            if !object.coded {
                self.sums.gzips.write(self.flow, bytes);
            }
        }
    }

    fn lost(&mut self, bytes: u64) {
        if let Some(object) = self.object {
            object.whole = false;
            self.sums.lost += bytes;
        }
    }

    fn end(&mut self, complete: bool) {
        if let Some(mut object) = self.object.take() {
            object.whole &= complete;
            self.finish(&object);
        }
    }
}

impl Exchange<'_> {
    fn begin(&mut self, status: u16, fields: Fields<'_>, request: Option<Request>) {
        let sums = &mut *self.sums;
        let coded = fields
            .members("content-encoding")
            .chain(fields.members("transfer-encoding"))
            .any(|coding| {
                !coding.eq_ignore_ascii_case(b"identity")
                    && !coding.eq_ignore_ascii_case(b"chunked")
            });
        let policy = Policy::new(status, fields, request.as_ref(), sums.now);
        let outcome =
            request.map_or(Outcome::Miss, |request| sums.proxy.ask(&request, &policy, sums.now));
        let name = fields.get("content-type").unwrap_or(b"none stated");
        let name = name.split(|&byte| byte == b';').next().unwrap_or(name).trim_ascii();
        let mut name = name[..name.len().min(MAX_TYPE_NAME)].to_ascii_lowercase();
        if sums.types.len() >= MAX_TYPES && !sums.names.contains_key(name.as_slice()) {
            name = b"others".to_vec();
        }
        let next = sums.types.len();
        let kind = *sums.names.entry(name.into()).or_insert(next);
        if kind == next {
            sums.types.push(Kind::default());
        }
        if !coded {
            sums.gzips.start(self.flow);
        }
        *self.object = Some(Box::new(Object {
            hash: Hasher(Xxh3::new()),
            bytes: 0,
            whole: true,
            kind,
            coded,
            request,
            policy,
            outcome,
        }));
    }

    fn finish(&mut self, object: &Object) {
        let sums = &mut *self.sums;
        let way = &mut sums.ways[self.direction.index()];
        let kind = &mut sums.types[object.kind];
        let size = if object.coded { Some(object.bytes) } else { sums.gzips.finish(self.flow) };
        let saved = object.bytes.saturating_sub(size.unwrap_or(object.bytes));
        if size.is_none() {
            way.not_compressed.add(object.bytes);
        }
        way.gzip += saved;
        way.bodies.add(object.bytes);
        way.classes[object.policy.class as usize].add(object.bytes);
        kind.bodies.add(object.bytes);
        kind.gzip += saved;
        // The length is part of the name.
        let body = object.hash.0.digest128() ^ (u128::from(object.bytes) << 64);
        match object.outcome {
            Outcome::Hit(stored) => {
                way.hits.add(object.bytes);
                if object.whole && stored != body {
                    way.stale.add(object.bytes);
                }
            }
            Outcome::Validated => way.validated.add(object.bytes),
            Outcome::Miss => {}
        }
        if !object.whole {
            sums.incomplete.add(object.bytes);
            return;
        }
        if let (Some(request), Outcome::Miss | Outcome::Validated) =
            (&object.request, object.outcome)
        {
            sums.proxy.store(request, &object.policy, body);
        }
        if object.bytes > 0 {
            if sums.bodies.get_mut(&body).is_some() {
                kind.repeated.add(object.bytes);
            } else {
                while sums.bodies.len() >= sums.max_bodies {
                    sums.bodies.pop_lru();
                    sums.bodies_evicted += 1;
                }
                sums.bodies.put(body, ());
                sums.most_bodies = sums.most_bodies.max(sums.bodies.len());
            }
        }
    }
}
