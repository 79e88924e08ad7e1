-- Preemptions and what became of their jobs. A preemption is named by the fact that ordered it: its record, and its place there.

-- name: page
-- $1: a tenant, or empty for all; $2, $3: before this fact; $4, $5: ordered in this period; $6: a job's id, or empty.
SELECT preemptions.preemption, preemptions.ordered, facts.place, preemptions.job, pool, cause, rule, ordered_at, settled_at,
       to_signal, grace, to_release, lost, unused
FROM headrace.preemptions
JOIN headrace.facts ON facts.sequence = preemptions.ordered AND facts.about = preemptions.job
    AND facts.type = 'preemption.ordered.v1'
WHERE (preemptions.ordered, facts.place) < ($2::bigint, $3::integer) AND ordered_at >= $4 AND ordered_at < $5
  AND ($1::text = '' OR split_part(preemptions.job, '.', 1) = $1 OR EXISTS (
      SELECT FROM headrace.victims WHERE victims.preemption = preemptions.preemption AND split_part(victims.job, '.', 1) = $1))
  AND ($6::text = '' OR right(preemptions.job, length($6)) = $6 OR EXISTS (
      SELECT FROM headrace.victims
      WHERE victims.preemption = preemptions.preemption AND right(victims.job, length($6)) = $6))
ORDER BY preemptions.ordered DESC, facts.place DESC LIMIT $7

-- name: one
SELECT preemptions.preemption, preemptions.ordered, facts.place, preemptions.job, pool, cause, rule, ordered_at, settled_at,
       to_signal, grace, to_release, lost, unused
FROM headrace.preemptions
JOIN headrace.facts ON facts.sequence = preemptions.ordered AND facts.about = preemptions.job
    AND facts.type = 'preemption.ordered.v1'
WHERE preemptions.ordered = $1 AND facts.place = $2

-- name: victims
SELECT preemption, job, attempt, lost FROM headrace.victims WHERE preemption = ANY ($1::text[]) ORDER BY preemption, job

-- name: jobs
SELECT job, name, user_name, policy, profile FROM headrace.jobs WHERE job = ANY ($1::text[])

-- name: lost
-- Units times microseconds that each attempt lost.
SELECT leases.job, leases.attempt,
       sum((leases.amounts ->> 'gpu')::numeric * headrace.microseconds(leases.lost_until - leases.lost_from))
FROM headrace.leases JOIN unnest($1::text[], $2::bigint[]) AS victim (job, attempt) USING (job, attempt)
WHERE leases.lost_until > leases.lost_from AND leases.amounts ? 'gpu'
GROUP BY 1, 2

-- name: attempts
-- The attempts of these jobs from these numbers on, two of each.
SELECT attempts.job, attempts.attempt, attempts.pool, granted_at, started_at, ended_at, resume_from, checkpoint, checkpoint_at,
       ARRAY(SELECT DISTINCT node FROM headrace.leases
             WHERE leases.job = attempts.job AND leases.attempt = attempts.attempt ORDER BY node) AS nodes
FROM headrace.attempts JOIN unnest($1::text[], $2::bigint[]) AS wanted (job, attempt)
    ON wanted.job = attempts.job AND attempts.attempt BETWEEN wanted.attempt AND wanted.attempt + 1
ORDER BY attempts.job, attempts.attempt

-- name: started
SELECT attempts.attempt FROM headrace.attempts WHERE job = $1 AND granted_at >= $2 ORDER BY attempt LIMIT 1

-- name: steps
-- Records of the rungs that nodes took for these jobs after the order.
SELECT DISTINCT records.sequence, records.payload
FROM headrace.facts JOIN headrace.records USING (sequence)
WHERE facts.about = ANY ($1::text[]) AND facts.sequence > $2 AND facts.type = 'lease.rung.v1'
ORDER BY records.sequence LIMIT 10000

-- name: record
SELECT payload FROM headrace.records WHERE sequence = $1
