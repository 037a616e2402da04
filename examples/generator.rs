//! Iterators made of code that visits: a recursive walk over a tree, and an interface with a
//! callback.
//!
//! The visiting code runs on a stack of its own, from one element to the next, and stays as it is.

use segue::effect::{Generator, Yielder, generator, region};
use std::cell::Cell;
use std::rc::Rc;

enum Tree {
    Leaf(u32),
    Fork(Box<Tree>, Box<Tree>),
}

fn fork(left: Tree, right: Tree) -> Tree {
    Tree::Fork(Box::new(left), Box::new(right))
}

/// The walk is an ordinary recursive function. It gives a leaf wherever it meets one.
fn walk(tree: &Tree, y: &Yielder<u32>) {
    match tree {
        Tree::Leaf(it) => y.give(*it),
        Tree::Fork(left, right) => {
            walk(left, y);
            walk(right, y);
        }
    }
}

/// The leaves from left to right. The iterator owns the tree, so it may be kept for as long as one
/// likes.
fn leaves(tree: Tree) -> Generator<'static, u32> {
    generator(move |y| walk(&tree, y))
}

/// Two trees have the same fringe if their leaves are the same from left to right, whatever their
/// shapes. Each walk is halfway through its own recursion when they are compared, and neither goes
/// on after the first difference.
fn same_fringe(a: Tree, b: Tree) -> bool {
    leaves(a).eq(leaves(b))
}

/// Somebody else's interface, which calls back for each word.
fn for_each_word<'a>(text: &'a str, callback: impl FnMut(&'a str)) {
    text.split_whitespace().for_each(callback);
}

fn main() {
    use Tree::Leaf;
    let left = || fork(fork(Leaf(1), Leaf(2)), Leaf(3));
    let right = || fork(Leaf(1), fork(Leaf(2), Leaf(3)));
    let other = || fork(Leaf(1), fork(Leaf(5), Leaf(3)));
    assert!(leaves(left()).eq([1, 2, 3]));
    assert!(same_fringe(left(), right()));
    assert!(!same_fringe(left(), other()));

    // What borrows lives in a region. Whatever is suspended in it is ended before it returns.
    let text = String::from("straight line code");
    let longest = region(|r| {
        let words = r.generator(|y: &Yielder<&str>| for_each_word(&text, |word| y.give(word)));
        words.max_by_key(|word| word.len()).map(str::to_owned)
    });
    assert_eq!(longest.as_deref(), Some("straight"));

    // A generator that is dropped halfway unwinds its body: destructors run, and what it holds is
    // given back.
    let held = Rc::new(Cell::new(0));
    let body_holds = Rc::clone(&held);
    let mut squares = generator(move |y| {
        for i in 0_u64.. {
            body_holds.set(i);
            y.give(i * i);
        }
    });
    assert!(squares.by_ref().take(4).eq([0, 1, 4, 9]));
    drop(squares);
    assert_eq!((held.get(), Rc::strong_count(&held)), (3, 1));
    println!("the longest word is {longest:?}; four squares were asked for, and four were computed");
}
