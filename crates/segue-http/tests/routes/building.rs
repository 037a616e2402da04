//! Routers that are made of others, and mistakes in making one.

use segue_http::{Params, Router};

use crate::{ask_one, get, request};

#[test]
fn a_nested_router_answers_behind_its_prefix() {
    let notes = Router::new()
        .get("", |_| "all")
        .get("/", |_| "slash")
        .get("/{id}", |request| format!("{} {}", request.uri().path(), Params::of(request).get("id").unwrap()));
    let router = Router::new().get("/", |_| "root").nest("/notes", notes);
    for (target, expected) in [("/", "root"), ("/notes", "all"), ("/notes/", "slash"), ("/notes/7", "/notes/7 7")] {
        assert_eq!(get(&router, target).text(), expected);
    }
    assert_eq!(get(&router, "/7").status, 404);
}

#[test]
fn a_prefix_may_have_parameters_and_several_levels() {
    let parts = Router::new().get("/{part}", |request| {
        Params::of(request).iter().map(|(name, value)| format!("{name}={value};")).collect::<String>()
    });
    let notes = Router::new().nest("/{note}/parts", parts);
    let router = Router::new().nest("/users/{user}", notes);
    assert_eq!(get(&router, "/users/a/b/parts/c").text(), "user=a;note=b;part=c;");
}

#[test]
fn an_empty_prefix_merges_the_methods_of_a_path() {
    let reads = Router::new().get("/notes", |_| "read");
    let writes = Router::new().post("/notes", |_| "written").delete("/notes", |_| "gone");
    let router = Router::new().nest("", reads).nest("", writes);
    assert_eq!(ask_one(&router, &request("POST", "/notes")).text(), "written");
    let reply = ask_one(&router, &request("PUT", "/notes"));
    assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, HEAD, POST, DELETE, OPTIONS")));
}

#[test]
fn a_path_that_is_empty_matches_nothing_where_it_is_not_nested() {
    let router = Router::new().get("", |_| "nothing");
    assert_eq!(get(&router, "/").status, 404);
}

/// The message of the panic of `build`.
fn panics(build: impl FnOnce() -> Router<'static> + std::panic::UnwindSafe) -> String {
    let panic = std::panic::catch_unwind(build).expect_err("it is built");
    panic.downcast_ref::<String>().expect("a message with the paths").clone()
}

#[test]
fn routes_that_conflict_panic_and_name_each_other() {
    let at = |path: &'static str| move || Router::new().get("/users/{id}", |_| "").get(path, |_| "");
    let said = [
        (panics(at("/users/{id}")), "there are two routes GET \"/users/{id}\""),
        (panics(at("/users/{name}")), "the paths \"/users/{name}\" and \"/users/{id}\" conflict: "),
        (panics(at("/users/{*rest}")), "the paths \"/users/{*rest}\" and \"/users/{id}\" conflict: "),
        (panics(at("users")), "the path \"users\" of a route does not begin with a slash"),
        (panics(at("/users/{a}{b}")), "the path \"/users/{a}{b}\" is not one of a route: "),
        (panics(at("/users/{")), "the path \"/users/{\" is not one of a route: "),
        (panics(at("/{*rest}/x")), "the path \"/{*rest}/x\" is not one of a route: "),
        (panics(|| Router::new().any("/a", |_| "").any("/a", |_| "")), "there are two routes any \"/a\""),
        (
            panics(|| Router::new().get("/a/b", |_| "").nest("/a", Router::new().get("/b", |_| ""))),
            "there are two routes GET \"/a/b\"",
        ),
        (panics(|| Router::new().nest("/a/", Router::new())), "the prefix \"/a/\" has to begin with a slash"),
        (panics(|| Router::new().nest("a", Router::new())), "the prefix \"a\" has to begin with a slash"),
        (panics(|| Router::new().nest("/a", Router::new().fallback(|_| ""))), "the router at \"/a\" has a fallback"),
    ];
    for (said, expected) in said {
        assert!(said.starts_with(expected), "{said}");
    }
    // The same paths with other methods, and a fixed segment beside a parameter, are no conflict.
    let _ = Router::new().get("/a/{id}", |_| "").post("/a/{id}", |_| "").get("/a/b", |_| "").any("/a/{id}", |_| "");
}
