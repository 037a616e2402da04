//! Random paths through a router, compared with a plain model of the rules that are documented.

use segue_http::{Params, Request, Router};

use crate::{ask, request};

const ROUTES: &[&str] = &[
    "/",
    "/a",
    "/a/",
    "/a/b",
    "/a/{x}",
    "/a/{x}/",
    "/a/{x}/b",
    "/a/b/{y}",
    "/a/{x}/{y}/b",
    "/{p}/b",
    "/{p}/{q}/a",
    "/b/{*rest}",
    "/b/a",
    "/b/a/b",
    "/ab/{name}.b",
    "/ab/{name}",
    "/ab/a.b",
];

/// Parameters with their texts.
type Captured<'p> = Vec<(String, &'p str)>;

/// The rank of a segment, and its parameter with the text, if the segment of a route matches.
fn segment<'p>(route: &str, path: &'p str) -> Option<(u8, Option<(String, &'p str)>)> {
    let Some((name, suffix)) = route.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
        return (route == path).then_some((0, None));
    };
    let value = path.strip_suffix(suffix).filter(|value| !value.is_empty())?;
    Some((if suffix.is_empty() { 2 } else { 1 }, Some((name.to_owned(), value))))
}

fn cut(text: &str) -> (&str, Option<&str>) {
    text.split_once('/').map_or((text, None), |(first, rest)| (first, Some(rest)))
}

/// The ranks of all segments, and the parameters in order, if the route matches.
fn matched<'p>(pattern: &str, path: &'p str) -> Option<(Vec<u8>, Captured<'p>)> {
    let (mut ranks, mut params) = (Vec::new(), Vec::new());
    let (mut route, mut path) = (Some(&pattern[1..]), Some(&path[1..]));
    while let Some(rest) = route {
        let left = path?;
        if let Some(name) = rest.strip_prefix("{*") {
            if left.is_empty() {
                return None;
            }
            ranks.push(3);
            params.push((name.trim_end_matches('}').to_owned(), left));
            return Some((ranks, params));
        }
        let ((of_route, after), (of_path, further)) = (cut(rest), cut(left));
        let (rank, param) = segment(of_route, of_path)?;
        ranks.push(rank);
        params.extend(param);
        (route, path) = (after, further);
    }
    path.is_none().then_some((ranks, params))
}

/// The answer to a path: of all routes that match, the first by rank, from segment to segment.
fn expected(path: &str) -> Option<String> {
    let found = ROUTES.iter().filter_map(|route| Some((matched(route, path)?, route)));
    let ((_, params), route) = found.min_by(|(one, _), (other, _)| one.0.cmp(&other.0))?;
    Some(said(route, params.iter().map(|(name, value)| (&**name, value.replace("%2F", "/")))))
}

fn said<'p>(route: &str, params: impl Iterator<Item = (&'p str, String)>) -> String {
    params.fold(route.to_owned(), |said, (name, value)| format!("{said} {name}={value}"))
}

#[test]
fn random_paths_reach_the_route_that_the_rules_say() {
    let router = ROUTES.iter().fold(Router::new(), |router, &route| {
        router.get(route, move |request: &mut Request<'_>| {
            said(route, Params::of(request).iter().map(|(name, value)| (name, value.to_owned())))
        })
    });
    let mut state = 7u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut reached = std::collections::HashSet::new();
    for _ in 0..100 {
        let paths: Vec<String> = (0..200)
            .map(|_| {
                let pieces = ["a", "b", "/", "/a", "/b", "/ab", ".b", "%2F", "c"];
                (0..random(7)).fold("/".to_owned(), |path, _| path + pieces[random(pieces.len())])
            })
            // A target that begins so names a host in places.
            .map(|path| path.replacen("//", "/", 1))
            .collect();
        let requests: Vec<String> = paths.iter().map(|path| request("GET", path)).collect();
        for (path, reply) in paths.iter().zip(ask(&router, &requests)) {
            match expected(path) {
                Some(text) => {
                    assert_eq!((reply.status, reply.text()), (200, &*text), "{path}");
                    reached.insert(text.split(' ').next().map(str::to_owned));
                }
                None => assert_eq!(reply.status, 404, "{path}"),
            }
        }
    }
    assert_eq!(reached.len(), ROUTES.len(), "{reached:?}");
}
