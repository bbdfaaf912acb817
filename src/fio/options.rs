//! Engine options as fio wants them: a table of `struct fio_option`, and the memory that fio puts the values into.
//!
//! Every option is text to fio. The check runs while fio parses, so that a bad value ends the run before a file is laid out, with a line
//! of our own; the job parses the text again in init.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use super::engine::Engine;
use super::{guard, log};

/// sizeof(struct fio_option) on LP64, unchanged from 3.16 to head.
pub(super) const FIO_OPTION_BYTES: usize = 1512;
/// Where the mark stands in an options struct; fio uses the first word for itself.
pub(super) const MARK_OFFSET: usize = 8;
/// The default of a hidden option: what tells an options struct of ours from other memory.
pub(super) const MARK: usize = 0x6770_7569_6f2d_656f;
const TEXT_OFFSET: usize = 16;
/// As many options as there are check functions below.
const MOST: usize = 40;

const TYPE_STR_STORE: c_int = 6;
const TYPE_ULL: c_int = 9;
const CATEGORY_ENGINE: u64 = 64;

/// One engine option.
pub struct OptionSpec {
    pub name: &'static str,
    pub help: &'static str,
    /// What fio shows and sets where the job says nothing.
    pub default: Option<&'static str>,
    /// The words it takes with their meaning, shown by `--enghelp`; empty where it is not a word.
    pub values: &'static [(&'static str, &'static str)],
    /// Whether a value is one of those allowed; the error says what was given and what is allowed.
    pub check: fn(&str) -> Result<(), String>,
}

/// The option values of one job.
pub struct OptionValues {
    values: Vec<Option<String>>,
    names: Vec<&'static str>,
}

impl OptionValues {
    /// Copies the texts out of the options struct at `eo`.
    ///
    /// # Safety
    /// `eo` is the options struct that fio made by the table of [`build`] for the same `E`.
    pub(super) unsafe fn copy<E: Engine>(eo: *const c_void) -> Self {
        let value = |n: usize| {
            // SAFETY: the struct holds one pointer for each option behind the mark; fio owns the text, which ends in NUL.
            let text = unsafe { eo.byte_add(TEXT_OFFSET + n * 8).cast::<*const c_char>().read() };
            // SAFETY: as above.
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        Self { values: (0..E::OPTIONS.len()).map(value).collect(), names: E::OPTIONS.iter().map(|o| o.name).collect() }
    }

    /// The text of option `name`, where the job gave one or it has a default.
    pub fn get(&self, name: &str) -> Option<&str> {
        let index = self.names.iter().position(|&n| n == name)?;
        self.values[index].as_deref()
    }
}

/// Bytes of an options struct: fio's word, the mark, one pointer for each option.
pub(super) fn struct_size<E: Engine>() -> usize {
    TEXT_OFFSET + E::OPTIONS.len() * 8
}

/// Makes the table of `E`'s options. fio keeps its address and writes to it, so it lives for ever and is writable.
pub(super) fn build<E: Engine>() -> *mut c_void {
    assert!(E::OPTIONS.len() <= MOST, "{} options, but only {MOST} check functions", E::OPTIONS.len());
    let words = (E::OPTIONS.len() + 2) * FIO_OPTION_BYTES / 8; // the mark in front, the end behind
    let table = Box::leak(vec![0u64; words].into_boxed_slice());
    let (mark, rest) = table.split_at_mut(FIO_OPTION_BYTES / 8);
    let mut mark = Entry(mark);
    mark.text(0, "gpuio=mark"); // nobody can set an option with this name
    mark.text(8, "gpuio=mark");
    mark.int(24, TYPE_ULL);
    mark.int(28, MARK_OFFSET as c_int);
    mark.text(112, "for this library's own use: leave it alone");
    mark.text(120, &MARK.to_string()); // in decimal: fio takes the last letters of a hexadecimal number for a unit
    mark.text(1408, "none"); // a parent: --enghelp lists only options without one
    mark.word(1464, CATEGORY_ENGINE);
    mark.int(1496, 1); // no_warn_def
    for (n, (spec, entry)) in E::OPTIONS.iter().zip(rest.chunks_exact_mut(FIO_OPTION_BYTES / 8)).enumerate() {
        describe(spec, n, Entry(entry), checks::<E>()[n]);
    }
    table.as_mut_ptr().cast()
}

fn describe(spec: &OptionSpec, n: usize, mut entry: Entry, check: Check) {
    entry.text(0, spec.name);
    entry.text(8, spec.name);
    entry.int(24, TYPE_STR_STORE);
    entry.int(28, (TEXT_OFFSET + n * 8) as c_int);
    entry.word(104, check as *const c_void as u64);
    entry.text(112, spec.help);
    if let Some(default) = spec.default {
        entry.text(120, default);
    }
    for (v, (word, meaning)) in spec.values.iter().take(31).enumerate() {
        entry.text(128 + v * 40, word);
        entry.text(128 + v * 40 + 16, meaning);
    }
    entry.word(1464, CATEGORY_ENGINE);
    entry.word(1472, 1); // some group: only the grouping of a graphical front end
}

/// One `struct fio_option`; offsets as in fio's option.h and parse.h.
struct Entry<'a>(&'a mut [u64]);

impl Entry<'_> {
    fn word(&mut self, offset: usize, value: u64) {
        self.0[offset / 8] = value;
    }

    fn int(&mut self, offset: usize, value: c_int) {
        let word = &mut self.0[offset / 8];
        let mut raw = word.to_ne_bytes();
        raw[offset % 8..offset % 8 + 4].copy_from_slice(&value.to_ne_bytes());
        *word = u64::from_ne_bytes(raw);
    }

    fn text(&mut self, offset: usize, value: &str) {
        let text = CString::new(value).unwrap_or_default();
        self.word(offset, text.into_raw() as u64); // as long-lived as the table
    }
}

/// `fio_opt_str_fn`: zero where the text is a value of the option.
type Check = unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;

unsafe extern "C" fn check<E: Engine, const N: usize>(_options: *mut c_void, value: *const c_char) -> c_int {
    let checked = guard::catch("option", || {
        // SAFETY: fio passes the NUL-terminated text of the option.
        let value = unsafe { CStr::from_ptr(value) }.to_string_lossy();
        let spec = &E::OPTIONS[N];
        (spec.check)(value.trim()).map_err(|why| log::line(&format!("{}={value}: {why}", spec.name)))
    });
    c_int::from(!matches!(checked, Some(Ok(()))))
}

/// A C function cannot know which option it was called for, so each has its own.
fn checks<E: Engine>() -> [Check; MOST] {
    macro_rules! each { ($($n:literal)*) => { [$(check::<E, $n>),*] } }
    each!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39)
}
