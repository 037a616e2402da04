//! The ring of ready tasks does what `VecDeque` does. Part of `policies/ring.rs`.

use super::*;
use std::collections::VecDeque;
use std::rc::Rc;

#[test]
fn it_does_what_a_vec_deque_does() {
    let counted = Rc::new(());
    let (mut grown, mut wrapped) = (0, 0);
    for seed in 0..if cfg!(miri) { 4 } else { 200 } {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut ring, mut model) = (Ring::default(), VecDeque::new());
        // Close to where a count wraps.
        ring.first = usize::MAX - 5;
        for number in 0..200 {
            let room = ring.places.len();
            match random.u8(0..8) {
                0..4 => {
                    ring.push_back((number, Rc::clone(&counted)));
                    model.push_back(number);
                }
                4 => {
                    ring.push_front((number, Rc::clone(&counted)));
                    model.push_front(number);
                }
                5 => ring.ebb(),
                _ => assert_eq!(ring.pop_front().map(|(number, _)| number), model.pop_front()),
            }
            grown += usize::from(ring.places.len() > room);
            wrapped += usize::from(ring.first < 5);
            assert_eq!(ring.is_empty(), model.is_empty());
            assert_eq!(Rc::strong_count(&counted), 1 + model.len());
            for ahead in 0..model.len() + 2 {
                assert_eq!(ring.get(ahead).map(|(number, _)| number), model.get(ahead));
            }
        }
        assert_eq!(format!("{ring:?}"), format!("{:?}", model.iter().map(|it| (it, ())).collect::<Vec<_>>()));
        drop(ring);
        assert_eq!(Rc::strong_count(&counted), 1);
    }
    assert!(grown > 5 && wrapped > 5, "{grown} {wrapped}");
}
