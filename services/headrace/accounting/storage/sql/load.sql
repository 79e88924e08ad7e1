-- What a service that starts has to know again.

-- name: position
SELECT sequence, digest, now FROM headrace.position

-- name: unsettled_attempts
SELECT job, attempt, pool, waiting_since, granted_at, started_at, ended_at, cause, exit_code, resume_from, checkpoint,
       checkpoint_step, checkpoint_at
FROM headrace.attempts WHERE cause IS NULL

-- name: leases_of_unsettled_attempts
SELECT leases.* FROM headrace.leases JOIN headrace.attempts USING (job, attempt) WHERE attempts.cause IS NULL

-- name: reservations
SELECT tenant, policy, key, number, since, amount, group_name FROM headrace.reservations ORDER BY since, number

-- name: reservations_of_policy
SELECT tenant, policy, key, number, since, amount, group_name FROM headrace.reservations
WHERE tenant = $1 AND policy = $2 AND key = $3 ORDER BY since, number

-- name: accounts
SELECT job, tenant, group_name, policy, profile, user_name, service_account, '' AS pool FROM headrace.jobs WHERE ended_at IS NULL

-- name: suspensions
SELECT lease, since, until, units FROM headrace.suspensions WHERE until IS NULL

-- name: kept
SELECT job, node, key, since, until, units, tenant, group_name, policy, profile, user_name, service_account, pool
FROM headrace.kept WHERE until IS NULL

-- name: tariffs
SELECT tariff, pool, tenant, since, spot FROM headrace.tariffs ORDER BY since, tariff

-- name: prices
SELECT tariff, pool, tenant, key, (on_demand * 1000000)::bigint, (reserved * 1000000)::bigint FROM headrace.prices

-- name: supply
SELECT DISTINCT ON (pool, key) pool, key, number, since, known, usable FROM headrace.capacity ORDER BY pool, key, number DESC

-- name: past_use
SELECT usage.key, usage.lease, leases.preemptible, leases.over_budget, usage.since, usage.until, usage.reserved, usage.borrowed,
       leases.tenant, leases.group_name, leases.policy, leases.profile, leases.user_name, leases.service_account, leases.pool, leases.node
FROM (
    SELECT * FROM headrace.usage WHERE until IS NULL
    UNION ALL
    SELECT * FROM headrace.usage WHERE until >= $1
) AS usage JOIN headrace.leases USING (lease)

-- name: past_use_of_policy
SELECT usage.key, usage.lease, leases.preemptible, leases.over_budget, usage.since, usage.until, usage.reserved, usage.borrowed,
       leases.tenant, leases.group_name, leases.policy, leases.profile, leases.user_name, leases.service_account, leases.pool, leases.node
FROM (
    SELECT * FROM headrace.usage WHERE until IS NULL
    UNION ALL
    SELECT * FROM headrace.usage WHERE until >= $1
) AS usage JOIN headrace.leases USING (lease)
WHERE leases.tenant = $2 AND leases.policy = $3 AND usage.key = $4
