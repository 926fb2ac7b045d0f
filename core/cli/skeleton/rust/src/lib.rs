//! example - one row for each message, once.
//!
//! What the message says comes in with it: {"id": "a-1", "customer_id": 7, "amount": 12.50}.

mod effectd;

use effectd::{Call, Key, Message, Plugin, Rows, Statement, Value, Verdict};

const ROW: u32 = 0;

static STATEMENTS: [Statement; 1] = [
    // The table's own key is a second lock on the door: no row inserted means that it was applied before.
    Statement::new(
        "row\0",
        "INSERT INTO example (id, customer_id, amount) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING\0",
        Rows::New,
    ),
];

/// Which effect the message names: from its content alone, the same for each copy of it.
fn key(call: &mut Call, msg: &Message, key: &mut Key) -> Verdict {
    match msg.text("id") {
        Some(id) => key.set(id),
        None => call.reject("id must be a text"),
    }
}

/// What it does: statements, queued. Nothing runs while this function does.
fn apply(call: &mut Call, msg: &Message) -> Verdict {
    match (msg.text("id"), msg.int64("customer_id"), msg.numeric("amount")) {
        (Some(id), Some(customer_id), Some(amount)) => {
            call.exec(ROW, &[Value::text(id), Value::int8(customer_id), Value::numeric(amount)]);
            Verdict::Ok
        }
        _ => call.reject("id must be a text, customer_id a whole number, amount a number"),
    }
}

static PLUGIN: Plugin = effectd::plugin!("example\0", "0.1\0", &STATEMENTS, key, apply);

#[no_mangle]
pub extern "C" fn effectd_plugin_entry() -> *const Plugin {
    &PLUGIN
}
