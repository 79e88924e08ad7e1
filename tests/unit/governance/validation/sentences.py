"""Sentences of validation that several tests expect."""

NOT_YET = (
    "it may be set when every service and node runs headrace 0.3.0 or newer, which a new installation knows a few seconds after its start; "
    "`headrace status` says what it waits for; leave it out until then"
)
