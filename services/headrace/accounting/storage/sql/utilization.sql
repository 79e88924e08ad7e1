-- The sums of samples: `minutes`, `device_hours` and `hours` add what a minute brought, `forget_*` end what has been kept long enough.

-- name: advance
UPDATE headrace.load_position SET minute = $1 WHERE minute < $1

-- name: minutes
INSERT INTO headrace.load_minutes
SELECT * FROM unnest(
    $1::integer[], $2::text[], $3::text[], $4::bigint[], $5::numeric[], $6::numeric[], $7::numeric[], $8::numeric[], $9::numeric[]
)

-- name: device_hours
INSERT INTO headrace.load_device_hours AS loads
SELECT * FROM unnest(
    $1::integer[], $2::text[], $3::text[], $4::bigint[], $5::numeric[], $6::numeric[], $7::numeric[], $8::numeric[], $9::numeric[]
)
ON CONFLICT (hour, node, device, lease) DO UPDATE SET
    held = loads.held + excluded.held, measured = loads.measured + excluded.measured, busy = loads.busy + excluded.busy,
    idle_held = loads.idle_held + excluded.idle_held, memory = loads.memory + excluded.memory

-- name: hours
INSERT INTO headrace.load_hours AS loads
SELECT * FROM unnest(
    $1::integer[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::boolean[], $8::text[],
    $9::numeric[], $10::numeric[], $11::numeric[], $12::numeric[]
)
ON CONFLICT (hour, tenant, group_name, policy, profile, user_name, service_account, pool) DO UPDATE SET
    held = loads.held + excluded.held, measured = loads.measured + excluded.measured, busy = loads.busy + excluded.busy,
    idle_held = loads.idle_held + excluded.idle_held

-- name: forget_minutes
DELETE FROM headrace.load_minutes WHERE minute < $1

-- name: forget_device_hours
DELETE FROM headrace.load_device_hours WHERE hour < $1

-- name: forget_hours
DELETE FROM headrace.load_hours WHERE hour < $1

-- name: by_account
SELECT piece.number, {names} AS names, sum(loads.measured), sum(loads.busy), sum(loads.idle_held)
FROM unnest($2::integer[], $3::integer[], $4::integer[]) AS piece (number, first, next)
JOIN headrace.load_hours AS loads ON loads.hour >= piece.first AND loads.hour < piece.next
WHERE $1::text = '' OR loads.tenant = $1
GROUP BY 1, 2

-- name: by_lease
SELECT piece.number, {names} AS names, sum(loads.measured), sum(loads.busy), sum(loads.idle_held)
FROM unnest($2::integer[], $3::integer[], $4::integer[]) AS piece (number, first, next)
JOIN headrace.load_device_hours AS loads ON loads.hour >= piece.first AND loads.hour < piece.next
JOIN headrace.leases ON leases.lease = loads.lease {jobs}
WHERE ($1::text = '' OR leases.tenant = $1) {only}
GROUP BY 1, 2

-- name: by_minute
SELECT piece.number, {names} AS names, sum(loads.measured), sum(loads.busy), sum(loads.idle_held)
FROM unnest($2::integer[], $3::integer[], $4::integer[]) AS piece (number, first, next)
JOIN headrace.load_minutes AS loads ON loads.minute >= piece.first AND loads.minute < piece.next
JOIN headrace.leases ON leases.lease = loads.lease {jobs}
WHERE ($1::text = '' OR leases.tenant = $1) {only}
GROUP BY 1, 2
