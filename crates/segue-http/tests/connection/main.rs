//! The connection's state machine, whichever way its bytes arrive: the fuzzer's corpus, and
//! requests that are changed by chance.

mod alike;

use std::collections::BTreeSet;
use std::path::Path;

use alike::fuzzed;

fn corpus() -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/http_connection");
    let files = std::fs::read_dir(directory).unwrap();
    files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
}

fn in_fiber(test: impl FnOnce() + Send + 'static) {
    segue_sched::Runtime::new().workers(1).run(test).unwrap();
}

#[test]
fn each_text_of_the_corpus_is_answered_alike_in_all_pieces() {
    let mut statuses = BTreeSet::new();
    for text in corpus() {
        statuses.extend(fuzzed(&text));
    }
    let seen =
        [200, 204, 304, 400, 408, 413, 417, 421, 431, 501, 505].into_iter().filter(|status| statuses.contains(status));
    assert_eq!(seen.count(), 10, "{statuses:?}: all but 408, as no time passes");
}

#[test]
fn texts_of_the_corpus_are_answered_alike_in_fibers() {
    in_fiber(|| {
        for text in corpus() {
            fuzzed(&text);
        }
    });
}

#[test]
fn changed_and_joined_texts_are_answered_alike() {
    let corpus = corpus();
    let mut random = fastrand::Rng::with_seed(1);
    let mut statuses = BTreeSet::new();
    for _ in 0..3_000 {
        let mut text = random.choice(&corpus).unwrap().clone();
        if random.bool() {
            text.extend(&random.choice(&corpus).unwrap()[1..]);
        }
        for _ in 0..random.usize(0..4) {
            let at = random.usize(0..=text.len());
            match random.u8(0..4) {
                0 => text.insert(at, random.u8(..)),
                1 => text.truncate(at),
                2 if at < text.len() => text[at] = *random.choice(b" \r\n\t:,;\"0aHEP").unwrap(),
                _ => {
                    let piece = text[at..text.len().min(at + random.usize(0..20))].to_vec();
                    let at = random.usize(0..=text.len());
                    text.splice(at..at, piece);
                }
            }
        }
        statuses.extend(fuzzed(&text));
    }
    assert!(statuses.len() >= 8, "{statuses:?}");
}
