//! Nothing: what there is to see are the tests, which use rayon with `core` in rayon-core's place.
//! `bench run rayon_patched` measures it.
