//! `generator`: the elements of a complete binary tree, in order, one at a time; an operation is
//! one element.
//!
//! Timed: asking for each element, until as many are there as the round wants; from the tree's
//! left, and again from the left when it is through. Not timed: making the tree, which is made once
//! for each program, and ending a walk halfway. A tree of depth 25 has 33,554,431 nodes, in about a
//! gigabyte; one of depth 15 fits into a cache.
//!
//! All but "by hand" walk the tree by a recursive function. "By hand" is an iterator with a stack
//! of nodes, which somebody has to write for each kind of tree.

use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload, smoke};
use corosensei::{Coroutine, Yielder};
use genawaiter::rc::{Co, Gen};
use std::cell::OnceCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "generator", timed: "the elements of a complete binary tree, in order, one at a time", variants };

struct Node {
    left: Link,
    value: u64,
    right: Link,
}

type Link = Option<Box<Node>>;

/// A complete tree, whose elements are numbered from 1.
struct Tree {
    root: Link,
    elements: u64,
}

impl Tree {
    fn new(depth: u32) -> Tree {
        fn complete(depth: u32, last: &mut u64) -> Link {
            let below = depth.checked_sub(1)?;
            let left = complete(below, last);
            *last += 1;
            let value = *last;
            Some(Box::new(Node { left, value, right: complete(below, last) }))
        }
        let mut elements = 0;
        Tree { root: complete(depth, &mut elements), elements }
    }
}

/// The tree of a variant, when somebody needs it.
#[derive(Clone)]
struct Shared {
    depth: u32,
    tree: Rc<OnceCell<Rc<Tree>>>,
}

impl Shared {
    /// Asks for `n` elements of walks.
    fn ask<I: Iterator<Item = u64>>(&self, n: u64, walk: fn(Rc<Tree>) -> I) -> Span {
        let tree = self.tree.get_or_init(|| Rc::new(Tree::new(self.depth)));
        let size = tree.elements;
        let (mut asked, mut sum) = (0, 0);
        let watch = Stopwatch::start();
        let mut elements = walk(Rc::clone(tree));
        while asked < n {
            match elements.next() {
                Some(value) => {
                    sum += value;
                    asked += 1;
                }
                None => elements = walk(Rc::clone(tree)),
            }
        }
        let span = watch.stop(n);
        let below = |last: u64| last * (last + 1) / 2;
        assert_eq!(sum, n / size * below(size) + below(n % size));
        span
    }
}

fn variants() -> Vec<Variant> {
    let variant = |depth: u32| {
        let tree = Shared { depth, tree: Rc::default() };
        let [a, b, c, d] = [(); 4].map(|()| tree.clone());
        Variant::new(format!("depth {depth}"), "element", 1)
            .add(SEGUE, move |n| a.ask(n, segue))
            .add("by hand", move |n| b.ask(n, InOrder::new))
            .add("corosensei", move |n| c.ask(n, corosensei))
            .add("genawaiter", move |n| d.ask(n, genawaiter))
            .add_go(&[&depth.to_string()])
            .add_ocaml(&[&depth.to_string()])
    };
    vec![variant(15), variant(if smoke() { 18 } else { 25 })]
}

fn segue(tree: Rc<Tree>) -> impl Iterator<Item = u64> {
    fn walk(link: &Link, y: &segue::effect::Yielder<u64>) {
        if let Some(node) = link {
            walk(&node.left, y);
            y.give(node.value);
            walk(&node.right, y);
        }
    }
    segue::effect::generator(move |y| walk(&tree.root, y))
}

/// The nodes whose left part is done.
struct InOrder {
    tree: Rc<Tree>,
    stack: Vec<*const Node>,
}

impl InOrder {
    fn new(tree: Rc<Tree>) -> InOrder {
        let mut walk = InOrder { tree, stack: Vec::new() };
        let tree = Rc::clone(&walk.tree);
        walk.go_left(&tree.root);
        walk
    }

    #[inline]
    fn go_left(&mut self, mut link: &Link) {
        while let Some(node) = link {
            self.stack.push(&raw const **node);
            link = &node.left;
        }
    }
}

impl Iterator for InOrder {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        // SAFETY: the tree is this value's too, and nobody changes it.
        #[allow(unsafe_code, reason = "the walk is to own what it walks over, as the others do")]
        let node = unsafe { &*self.stack.pop()? };
        self.go_left(&node.right);
        Some(node.value)
    }
}

fn corosensei(tree: Rc<Tree>) -> impl Iterator<Item = u64> {
    fn walk(link: &Link, y: &Yielder<(), u64>) {
        if let Some(node) = link {
            walk(&node.left, y);
            y.suspend(node.value);
            walk(&node.right, y);
        }
    }
    let mut coroutine = Coroutine::<(), u64, ()>::new(move |y, ()| walk(&tree.root, y));
    std::iter::from_fn(move || coroutine.resume(()).as_yield())
}

/// A call that may wait is a future of its own, in the heap.
fn genawaiter(tree: Rc<Tree>) -> impl Iterator<Item = u64> {
    fn walk<'a>(link: &'a Link, co: &'a Co<u64>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            if let Some(node) = link {
                walk(&node.left, co).await;
                co.yield_(node.value).await;
                walk(&node.right, co).await;
            }
        })
    }
    Gen::new(move |co| async move { walk(&tree.root, &co).await }).into_iter()
}
