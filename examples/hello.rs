//! The program of the README: fibers, a promise, and a plain thread that fills it.

use segue::sync::promise;

fn main() {
    let sum = segue::run(|| {
        let (resolver, answer) = promise();
        std::thread::spawn(move || resolver.fill(40));
        let two = segue::spawn(|| 1 + 1);
        answer.wait().unwrap() + two.join().unwrap()
    });
    println!("{sum}");
}
