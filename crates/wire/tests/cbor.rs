//! Properties of the encoding: written values are canonical and read back the same, and nothing read is lost.

use proptest::prelude::*;
use quipu_wire::cbor::{Value, decode};

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<u64>().prop_map(Value::Uint),
        any::<u64>().prop_map(Value::Nint),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(Value::Bytes),
        "\\PC*".prop_map(Value::Text),
        any::<bool>().prop_map(Value::Bool),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
            proptest::collection::vec((inner.clone(), inner), 0..8).prop_map(Value::Map),
        ]
    })
}

proptest! {
    #[test]
    fn written_values_are_canonical_and_the_same_again(value in values()) {
        let bytes = value.to_bytes();
        let item = decode(&bytes).unwrap();
        prop_assert!(item.canonical);
        prop_assert_eq!(item.len_bytes, bytes.len());
        prop_assert_eq!(item.value.to_bytes(), bytes);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(item) = decode(&bytes) {
            let again = item.value.to_bytes();
            // NaN is not equal to itself, so bytes are compared.
            prop_assert_eq!(decode(&again).unwrap().value.to_bytes(), again.clone());
            if item.canonical {
                prop_assert_eq!(&bytes[..item.len_bytes], &again[..]);
            }
        }
    }
}
