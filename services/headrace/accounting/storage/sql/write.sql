-- What one stretch of the ledger changes. All of it and the position are one transaction. Rows come as one array for
-- each column, which knows about rows that are there; those of `facts`, the most, never are, and come by COPY.

-- name: advance
UPDATE headrace.position SET sequence = $1, digest = $2, now = $3 WHERE sequence = $4 AND digest = $5

-- name: records
INSERT INTO headrace.records
SELECT * FROM unnest($1::bigint[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::text[], $7::bytea[])
ON CONFLICT (sequence) DO NOTHING

-- name: other_record
SELECT min(records.sequence) FROM headrace.records
JOIN unnest($1::bigint[], $2::text[]) AS given (sequence, digest) USING (sequence)
WHERE records.digest <> given.digest

-- name: jobs
INSERT INTO headrace.jobs
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::jsonb[], $9::bigint[], $10::boolean[],
    $11::bigint[], $12::jsonb[], $13::bigint[], $14::timestamptz[], $15::text[], $16::text[], $17::text[], $18::bigint[],
    $19::bigint[], $20::bigint[], $21::timestamptz[], $22::boolean[], $23::timestamptz[]
)
ON CONFLICT (job) DO UPDATE SET
    waiting_since = excluded.waiting_since, state = excluded.state, reason = excluded.reason, message = excluded.message, attempts = excluded.attempts,
    preemptions = excluded.preemptions, exit_code = excluded.exit_code, ended_at = excluded.ended_at

-- name: rejected
INSERT INTO headrace.jobs
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::jsonb[], $9::bigint[], $10::boolean[],
    $11::bigint[], $12::jsonb[], $13::bigint[], $14::timestamptz[], $15::text[], $16::text[], $17::text[], $18::bigint[],
    $19::bigint[], $20::bigint[], $21::timestamptz[], $22::boolean[], $23::timestamptz[]
)
ON CONFLICT (job) DO NOTHING

-- name: array_parts
INSERT INTO headrace.array_parts
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::timestamptz[])

-- name: unserved
INSERT INTO headrace.unserved
SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[])

-- name: attempts
INSERT INTO headrace.attempts
SELECT * FROM unnest(
    $1::text[], $2::bigint[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[], $8::text[],
    $9::bigint[], $10::text[], $11::text[], $12::bigint[], $13::timestamptz[]
)
ON CONFLICT (job, attempt) DO UPDATE SET
    started_at = excluded.started_at, ended_at = excluded.ended_at, cause = excluded.cause, exit_code = excluded.exit_code,
    checkpoint = excluded.checkpoint, checkpoint_step = excluded.checkpoint_step, checkpoint_at = excluded.checkpoint_at

-- name: leases
INSERT INTO headrace.leases
SELECT * FROM unnest(
    $1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
    $11::text[], $12::jsonb[], $13::jsonb[], $14::boolean[], $15::timestamptz[], $16::timestamptz[], $17::timestamptz[],
    $18::timestamptz[], $19::timestamptz[], $20::timestamptz[], $21::text[], $22::bigint[], $23::timestamptz[], $24::timestamptz[],
    $25::boolean[], $26::boolean[], $27::timestamptz[]
)
ON CONFLICT (lease) DO UPDATE SET
    started_at = excluded.started_at, heard_at = excluded.heard_at, checkpoint_at = excluded.checkpoint_at,
    exited_at = excluded.exited_at, ended_at = excluded.ended_at, outcome = excluded.outcome, exit_code = excluded.exit_code,
    lost_from = excluded.lost_from, lost_until = excluded.lost_until, charged_at = excluded.charged_at

-- name: usage_gone
DELETE FROM headrace.usage
USING unnest($1::bigint[], $2::text[], $3::timestamptz[]) AS gone (lease, key, since)
WHERE usage.lease = gone.lease AND usage.key = gone.key AND usage.since = gone.since

-- name: usage
INSERT INTO headrace.usage
SELECT * FROM unnest($1::bigint[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::bigint[], $6::bigint[])
ON CONFLICT (lease, key, since) DO UPDATE SET
    until = excluded.until, reserved = excluded.reserved, borrowed = excluded.borrowed

-- name: suspensions
INSERT INTO headrace.suspensions
SELECT DISTINCT ON (lease, since) lease, since, until, units
FROM unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::bigint[]) AS given (lease, since, until, units)
ORDER BY lease, since, until
ON CONFLICT (lease, since) DO UPDATE SET until = excluded.until

-- name: kept
-- Of several rows of one interval the last counts.
INSERT INTO headrace.kept
SELECT DISTINCT ON (job, node, key, since)
    job, node, key, since, until, units, tenant, group_name, policy, profile, user_name, service_account, pool
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[],
    $11::text[], $12::boolean[], $13::text[]
) WITH ORDINALITY
    AS given (job, node, key, since, until, units, tenant, group_name, policy, profile, user_name, service_account, pool, place)
ORDER BY job, node, key, since, place DESC
ON CONFLICT (job, node, key, since) DO UPDATE SET until = excluded.until, units = excluded.units, pool = excluded.pool

-- name: days
INSERT INTO headrace.days AS days
SELECT * FROM unnest(
    $1::integer[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::boolean[], $8::text[], $9::text[], $10::bigint[],
    $11::numeric[], $12::numeric[], $13::numeric[], $14::numeric[], $15::numeric[], $16::numeric[]
)
ON CONFLICT (tenant, day, group_name, policy, profile, user_name, service_account, pool, key, tariff) DO UPDATE SET
    reserved = days.reserved + excluded.reserved, borrowed = days.borrowed + excluded.borrowed,
    suspended = days.suspended + excluded.suspended, waiting = days.waiting + excluded.waiting, kept = days.kept + excluded.kept,
    provider_lost = days.provider_lost + excluded.provider_lost

-- name: hours
INSERT INTO headrace.hours AS hours
SELECT * FROM unnest(
    $1::integer[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::boolean[], $8::text[], $9::text[], $10::bigint[],
    $11::numeric[], $12::numeric[], $13::numeric[], $14::numeric[], $15::numeric[], $16::numeric[]
)
ON CONFLICT (tenant, hour, group_name, policy, profile, user_name, service_account, pool, key, tariff) DO UPDATE SET
    reserved = hours.reserved + excluded.reserved, borrowed = hours.borrowed + excluded.borrowed,
    suspended = hours.suspended + excluded.suspended, waiting = hours.waiting + excluded.waiting, kept = hours.kept + excluded.kept,
    provider_lost = hours.provider_lost + excluded.provider_lost

-- name: node_hours
INSERT INTO headrace.node_hours AS hours
SELECT * FROM unnest(
    $1::integer[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::numeric[], $8::numeric[], $9::numeric[], $10::numeric[],
    $11::numeric[]
)
ON CONFLICT (tenant, hour, pool, node, key, tariff) DO UPDATE SET
    reserved = hours.reserved + excluded.reserved, borrowed = hours.borrowed + excluded.borrowed,
    suspended = hours.suspended + excluded.suspended, kept = hours.kept + excluded.kept,
    provider_lost = hours.provider_lost + excluded.provider_lost

-- name: tariffs
INSERT INTO headrace.tariffs
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::timestamptz[], $5::boolean[])

-- name: prices
INSERT INTO headrace.prices
SELECT tariff, pool, tenant, key, on_demand / 1000000.0, reserved / 1000000.0
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
    AS given (tariff, pool, tenant, key, on_demand, reserved)

-- name: preemptions
INSERT INTO headrace.preemptions (preemption, job, pool, cause, rule, ordered, ordered_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::timestamptz[])

-- name: victims
INSERT INTO headrace.victims
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[])

-- name: settlements
UPDATE headrace.preemptions SET
    settled_at = settled.settled_at, to_signal = settled.to_signal, grace = settled.grace, to_release = settled.to_release,
    lost = settled.lost
FROM unnest($1::text[], $2::timestamptz[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
    AS settled (preemption, settled_at, to_signal, grace, to_release, lost)
WHERE preemptions.preemption = settled.preemption

-- name: unused
UPDATE headrace.preemptions SET unused = ended.unused
FROM unnest($1::text[], $2::text[]) AS ended (preemption, unused)
WHERE preemptions.preemption = ended.preemption

-- name: reservations
INSERT INTO headrace.reservations
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::timestamptz[], $6::bigint[], $7::text[])

-- name: capacity
INSERT INTO headrace.capacity
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::timestamptz[], $5::bigint[], $6::bigint[])

-- name: nodes
INSERT INTO headrace.nodes
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::jsonb[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[],
    $10::timestamptz[]
)
ON CONFLICT (node) DO UPDATE SET
    pool = excluded.pool, state = excluded.state, cordoned = excluded.cordoned, labels = excluded.labels, model = excluded.model,
    gpus = excluded.gpus, cpu = excluded.cpu, memory = excluded.memory, registered_at = excluded.registered_at

-- name: instances
INSERT INTO headrace.instances
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::timestamptz[], $9::timestamptz[],
    $10::timestamptz[], $11::timestamptz[], $12::text[]
)
ON CONFLICT (instance) DO UPDATE SET
    provider_id = excluded.provider_id, created_at = excluded.created_at, joined_at = excluded.joined_at, ended_at = excluded.ended_at,
    cause = excluded.cause
