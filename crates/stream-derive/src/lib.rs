//! `#[derive(Record)]`: makes a structure a kind of record or a field of one, and an enumeration without data a field.
//!
//! The macro implements the traits in `quipu_stream::record`, which also documents the types that fields may have.
//! Attributes of a structure: `#[quipu(name = "…", category = "…", text = "{field} …")]`; of a field: `#[quipu(role = N,
//! unit = "…", delta, hex)]`.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, ExprUnary, Fields, Ident, Lit, LitInt, LitStr, UnOp,
    parse_macro_input,
};

/// See the crate's documentation.
#[proc_macro_derive(Record, attributes(quipu))]
pub fn derive_record(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let made = match &input.data {
        Data::Struct(data) => of_struct(&input, &data.fields),
        Data::Enum(data) => of_enum(&input, data),
        Data::Union(_) => Err(Error::new(input.span(), "a union is no record")),
    };
    made.unwrap_or_else(Error::into_compile_error).into()
}

/// The parsed attributes of a structure or field.
#[derive(Default)]
struct Said {
    name: Option<LitStr>,
    category: Option<LitStr>,
    text: Option<LitStr>,
    unit: Option<LitStr>,
    role: Option<LitInt>,
    flags: u64,
}

fn said(attributes: &[Attribute]) -> Result<Said, Error> {
    const DELTA: u64 = 1;
    const HEXADECIMAL: u64 = 8;
    let mut said = Said::default();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("quipu")) {
        attribute.parse_nested_meta(|meta| {
            let word = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            match word.as_str() {
                "name" => said.name = Some(meta.value()?.parse()?),
                "category" => said.category = Some(meta.value()?.parse()?),
                "text" => said.text = Some(meta.value()?.parse()?),
                "unit" => said.unit = Some(meta.value()?.parse()?),
                "role" => said.role = Some(meta.value()?.parse()?),
                "delta" => said.flags |= DELTA,
                "hex" => said.flags |= HEXADECIMAL,
                _ => return Err(meta.error("expected name, category, text, unit, role, delta or hex")),
            }
            Ok(())
        })?;
    }
    Ok(said)
}

fn of_struct(input: &DeriveInput, fields: &Fields) -> Result<Tokens, Error> {
    let Fields::Named(fields) = fields else {
        return Err(Error::new(input.span(), "a record needs fields with names"));
    };
    let ident = &input.ident;
    let (impl_generics, generics, bounds) = input.generics.split_for_impl();
    let whole = said(&input.attrs)?;
    let name = whole.name.map_or_else(|| ident.to_string(), |name| name.value());
    let option = |text: Option<LitStr>| match text {
        Some(text) => quote!(::core::option::Option::Some(#text.into())),
        None => quote!(::core::option::Option::None),
    };
    let (category, text) = (option(whole.category), option(whole.text));
    let mut places = Vec::new();
    let mut puts = Vec::new();
    let mut described = Vec::new();
    let mut members = Vec::new();
    let mut aligns = Vec::new();
    for field in &fields.named {
        let ty = &field.ty;
        let field_ident =
            field.ident.as_ref().ok_or_else(|| Error::new(field.span(), "a field without a name"))?;
        let said = said(&field.attrs)?;
        let field_name = said.name.map_or_else(|| field_ident.to_string(), |name| name.value());
        let unit = option(said.unit);
        let role = match said.role {
            Some(role) => quote!(::core::option::Option::Some(#role)),
            None => quote!(::core::option::Option::None),
        };
        let flags = said.flags;
        let value = quote!(<#ty as ::quipu_stream::record::FieldValue>);
        places.push(quote!(let at = at.next_multiple_of(#value::ALIGN) + #value::SIZE;));
        puts.push(quote! {
            let here = at.next_multiple_of(#value::ALIGN);
            ::quipu_stream::record::FieldValue::put(&self.#field_ident, body, base + here);
            let at = here + #value::SIZE;
        });
        described.push(quote! {
            ::quipu_stream::spec::FieldSpec {
                name: #field_name.into(),
                ty: #value::ty(),
                offset: ::core::option::Option::None,
                role: #role,
                unit: #unit,
                flags: #flags,
            }
        });
        members.push(quote!((#field_name.into(), #value::ty())));
        aligns.push(quote!(let most = if #value::ALIGN > most { #value::ALIGN } else { most };));
    }
    Ok(quote! {
        impl #impl_generics ::quipu_stream::record::Record for #ident #generics #bounds {
            const FIXED_BYTES: usize = {
                let at: usize = 0;
                #(#places)*
                at
            };
            fn spec() -> ::quipu_stream::spec::SchemaSpec {
                ::quipu_stream::spec::SchemaSpec {
                    name: #name.into(),
                    category: #category,
                    text: #text,
                    flags: 0,
                    size: ::core::option::Option::None,
                    fields: ::std::vec![#(#described),*],
                }
            }
            #[inline]
            fn put(&self, body: &mut ::quipu_stream::record::Body<'_>) {
                ::quipu_stream::record::FieldValue::put(self, body, 0);
            }
        }

        impl #impl_generics ::quipu_stream::record::FieldValue for #ident #generics #bounds {
            const SIZE: usize = {
                let size = <Self as ::quipu_stream::record::Record>::FIXED_BYTES;
                size.next_multiple_of(<Self as ::quipu_stream::record::FieldValue>::ALIGN)
            };
            const ALIGN: usize = {
                let most: usize = 1;
                #(#aligns)*
                most
            };
            fn ty() -> ::quipu_stream::spec::Ty {
                ::quipu_stream::spec::Ty::Struct { name: #name.into(), members: ::std::vec![#(#members),*] }
            }
            #[inline]
            fn put(&self, body: &mut ::quipu_stream::record::Body<'_>, base: usize) {
                let at: usize = 0;
                #(#puts)*
                let _ = at;
            }
        }
    })
}

/// The value of an expression, if it is an integer literal.
fn literal(value: &Expr) -> Option<i128> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(n), .. }) => n.base10_parse().ok(),
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => literal(expr).map(|n| -n),
        Expr::Paren(inner) => literal(&inner.expr),
        Expr::Group(inner) => literal(&inner.expr),
        _ => None,
    }
}

/// The smallest integer type for values within `bounds`; 64 bits signed, for any `isize`, if the values are not known.
fn word_of(bounds: Option<(i128, i128)>) -> Ident {
    let Some((least, most)) = bounds else { return format_ident!("i64") };
    let sign = if least < 0 { 'i' } else { 'u' };
    let has_room = |bits: &u32| {
        if least < 0 { least >= -1 << (bits - 1) && most < 1 << (bits - 1) } else { most < 1 << bits }
    };
    let bits = [8, 16, 32].into_iter().find(has_room).unwrap_or(64);
    format_ident!("{sign}{bits}")
}

fn of_enum(input: &DeriveInput, data: &syn::DataEnum) -> Result<Tokens, Error> {
    let ident = &input.ident;
    let name = said(&input.attrs)?.name.map_or_else(|| ident.to_string(), |name| name.value());
    let mut names = Vec::new();
    let mut checks = Vec::new();
    // The smallest and the largest value; `None` once one is not a literal.
    let mut bounds = Some((0, 0));
    let mut next = 0_i128;
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new(variant.span(), "a field can be one of plain names only"));
        }
        let variant_ident = &variant.ident;
        let shown = said(&variant.attrs)?.name.map_or_else(|| variant_ident.to_string(), |name| name.value());
        names.push(quote!((#ident::#variant_ident as i128, #shown.into())));
        checks.push(quote!(#ident::#variant_ident as i128));
        let value = variant.discriminant.as_ref().map_or(Some(next), |(_, value)| literal(value));
        bounds = bounds.zip(value).map(|((least, most), n)| (n.min(least), n.max(most)));
        next = value.unwrap_or_default().saturating_add(1);
    }
    let word = word_of(bounds);
    let value = quote!(<#word as ::quipu_stream::record::FieldValue>);
    Ok(quote! {
        // A value outside the word would be written as another value.
        const _: () = {
            #(::core::assert!(#checks as #word as i128 == #checks, "a value that is too large for a field");)*
        };

        impl ::quipu_stream::record::FieldValue for #ident {
            const SIZE: usize = #value::SIZE;
            const ALIGN: usize = #value::ALIGN;
            fn ty() -> ::quipu_stream::spec::Ty {
                ::quipu_stream::spec::Ty::Enum {
                    name: #name.into(),
                    base: ::std::boxed::Box::new(#value::ty()),
                    names: ::std::vec![#(#names),*],
                }
            }
            fn put(&self, body: &mut ::quipu_stream::record::Body<'_>, at: usize) {
                ::quipu_stream::record::FieldValue::put(&(*self as #word), body, at);
            }
        }
    })
}
