//! What a source file that bindgen wrote says of C: which fields a struct has, and the values of constants.

use std::collections::HashMap;
use syn::{Expr, ExprLit, Fields, Item, Lit, Type};

/// bindgen's name for a member through which C reaches the fields of an anonymous struct or union.
const ANONYMOUS: &str = "__bindgen_anon_";
/// bindgen's name for the only member of a struct that it could not take apart.
const OPAQUE: &str = "_bindgen_opaque_blob";

#[derive(Default)]
pub(crate) struct Bindings {
    structs: HashMap<String, Vec<Member>>,
    constants: HashMap<String, usize>,
}

enum Member {
    Named(String),
    /// The type of an anonymous struct or union.
    Anonymous(String),
    Opaque,
}

impl Bindings {
    pub(crate) fn parse(source: &str) -> syn::Result<Self> {
        let mut bindings = Self::default();
        for item in syn::parse_file(source)?.items {
            match item {
                Item::Struct(item) => bindings.add_struct(item.ident.to_string(), &item.fields),
                Item::Union(item) => bindings.add_struct(item.ident.to_string(), &Fields::Named(item.fields)),
                Item::Const(item) => {
                    let value = unsigned(&item.expr).map(|value| (item.ident.to_string(), value));
                    bindings.constants.extend(value);
                }
                _ => (),
            }
        }
        Ok(bindings)
    }

    pub(crate) fn constant(&self, name: &str) -> Option<usize> {
        self.constants.get(name).copied()
    }

    /// Whether bindgen saw the struct's members.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.structs.get(name).is_some_and(|members| !members.iter().any(|member| matches!(member, Member::Opaque)))
    }

    /// Whether C code reaches `field` in the struct, be it through anonymous members.
    pub(crate) fn has_field(&self, name: &str, field: &str) -> bool {
        self.structs.get(name).into_iter().flatten().any(|member| match member {
            Member::Named(known) => known == field,
            Member::Anonymous(inner) => self.has_field(inner, field),
            Member::Opaque => false,
        })
    }

    fn add_struct(&mut self, name: String, fields: &Fields) {
        let members = fields.iter().filter_map(|field| {
            let member = field.ident.as_ref()?.to_string();
            match &field.ty {
                _ if member == OPAQUE => Some(Member::Opaque),
                Type::Path(path) if member.starts_with(ANONYMOUS) => {
                    let inner = path.path.segments.last()?;
                    Some(Member::Anonymous(inner.ident.to_string()))
                }
                _ => Some(Member::Named(member)),
            }
        });
        self.structs.insert(name, members.collect());
    }
}

/// A literal's value; `None` for anything else, negative numbers included (fio has some, the tables need none).
fn unsigned(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
        pub const FIO_SYNCFS: fio_ioengine_flags = 4194304;
        pub const DDIR_INVAL: fio_ddir = -1;
        pub struct io_u { pub file: *mut fio_file, pub __bindgen_anon_1: io_u__bindgen_ty_1 }
        pub union io_u__bindgen_ty_1 { pub index: u32, pub engine_data: *mut c_void }
        pub struct hidden { pub _bindgen_opaque_blob: [u64; 2usize] }";

    #[test]
    fn a_field_of_an_anonymous_union_is_a_field_of_the_outer_struct() {
        let bindings = Bindings::parse(SOURCE).expect("valid Rust");
        let has = |field| bindings.has_field("io_u", field);
        assert!(has("file") && has("engine_data") && !has("no_such_field"));
    }

    #[test]
    fn a_struct_that_bindgen_could_not_take_apart_is_not_known() {
        let bindings = Bindings::parse(SOURCE).expect("valid Rust");
        assert_eq!(["io_u", "hidden", "absent"].map(|name| bindings.knows(name)), [true, false, false]);
    }

    #[test]
    fn constants_are_found_by_name() {
        let bindings = Bindings::parse(SOURCE).expect("valid Rust");
        assert_eq!(bindings.constant("FIO_SYNCFS"), Some(1 << 22));
        assert_eq!(bindings.constant("DDIR_INVAL"), None);
    }
}
