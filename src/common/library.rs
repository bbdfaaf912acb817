//! Opening a vendor's library at run time, and the call tables that come out of it.

use std::ffi::CString;
use std::mem::ManuallyDrop;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// A vendor's library, open for as long as the process lives: none of them can be unloaded safely once a thread of its own has run.
pub struct Opened {
    /// Dropping it would close it.
    library: ManuallyDrop<Library>,
    /// What was opened, for messages.
    pub name: String,
}

/// Opens what the environment variable `variable` names, or else the first of `names` that the loader finds. The error names all that was
/// tried and what the loader said.
pub fn open(variable: &str, names: &[&str]) -> Result<Opened, String> {
    if let Some(path) = std::env::var(variable).ok().filter(|path| !path.is_empty()) {
        return open_named(&path, variable);
    }
    let mut said = String::new();
    for name in names {
        match load(name) {
            Ok(opened) => return Ok(opened),
            Err(error) if said.is_empty() => said = error,
            Err(_) => {}
        }
    }
    Err(format!("{} cannot be loaded: {said}; {variable}=/path/to/it names another", names.join(" and ")))
}

/// Opens `path`, which the user gave in `named_by`.
pub fn open_named(path: &str, named_by: &str) -> Result<Opened, String> {
    load(path).map_err(|said| format!("{path} (named by {named_by}) cannot be loaded: {said}"))
}

fn load(name: &str) -> Result<Opened, String> {
    // SAFETY: loading runs the vendor's constructors; it happens only in the process or thread of a job that asked for this vendor.
    let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| reason(&error))?;
    Ok(Opened { library: ManuallyDrop::new(library), name: name.to_owned() })
}

fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

impl Opened {
    /// The address of function `name`, or a line that names the library and the function.
    pub fn function(&self, name: &str) -> Result<*const (), String> {
        self.optional(name).ok_or_else(|| format!("{} has no function {name}: it is older than this library supports", self.name))
    }

    /// The address of a function that not every version has.
    pub fn optional(&self, name: &str) -> Option<*const ()> {
        let name = CString::new(name).ok()?;
        // SAFETY: only the address is taken; the call table gives it its type.
        let symbol = unsafe { self.library.get::<*const ()>(name.as_bytes_with_nul()) }.ok()?;
        Some(symbol.into_raw().cast_const().cast())
    }
}

/// Declares a struct of function pointers with a `load` that resolves them all, so that nothing is looked up, or missing, later. Vendors have
/// some functions alike under names of their own: `name` says under which one a function of the table is found. The pointers are private to
/// the module that declares them, which is the only one to call them.
macro_rules! call_table {
    ($(#[$doc:meta])* pub struct $table:ident {
        $(fn $name:ident($($argument:ty),* $(,)?) $(-> $result:ty)?;)*
        $(optional fn $maybe:ident($($maybe_argument:ty),* $(,)?) $(-> $maybe_result:ty)?;)*
    }) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "the vendor's names")]
        pub struct $table {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $($maybe: Option<unsafe extern "C" fn($($maybe_argument),*) $(-> $maybe_result)?>,)*
        }

        impl $table {
            /// Each function with its parameters, to be compared with a vendor's header.
            #[cfg(test)]
            #[allow(dead_code, reason = "not every vendor's header can be had")]
            pub const DECLARED: &'static [(&'static str, &'static str)] = &[
                $((stringify!($name), stringify!($($argument),*)),)*
                $((stringify!($maybe), stringify!($($maybe_argument),*)),)*
            ];

            pub fn load(from: &$crate::common::library::Opened, name: impl Fn(&'static str) -> String) -> Result<Self, String> {
                // SAFETY: each address is the function of that name, whose C declaration the table repeats.
                unsafe {
                    Ok(Self {
                        $($name: std::mem::transmute::<*const (), unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                            from.function(&name(stringify!($name)))?
                        ),)*
                        $($maybe: from.optional(&name(stringify!($maybe))).map(|f| {
                            std::mem::transmute::<*const (), unsafe extern "C" fn($($maybe_argument),*) $(-> $maybe_result)?>(f)
                        }),)*
                    })
                }
            }
        }
    };
}
pub(crate) use call_table;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_absent_is_named_with_the_variable_that_names_another() {
        let line = open("GPUIO_TEST_LIBRARY", &["libgpuio-none.so.0", "libgpuio-none.so"]).err().unwrap();
        assert!(line.contains("libgpuio-none.so.0 and libgpuio-none.so cannot be loaded"), "{line}");
        assert!(line.contains("GPUIO_TEST_LIBRARY=/path/to/it"), "{line}");
    }

    #[test]
    fn a_function_that_is_absent_is_named() {
        let libc = open("GPUIO_TEST_LIBRARY", &["libc.so.6"]).unwrap();
        assert!(libc.function("getpid").is_ok() && libc.optional("gpuio_none").is_none());
        assert!(libc.function("gpuio_none").unwrap_err().contains("libc.so.6 has no function gpuio_none"));
    }
}
