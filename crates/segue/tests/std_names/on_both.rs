// Each case as a test, with std's names and with ours.

macro_rules! cases {
    ($($name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            on_std::$name();
            everywhere(on_fibers::$name);
        }
    )*};
}
