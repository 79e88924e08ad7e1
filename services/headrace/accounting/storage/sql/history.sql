-- The history, out of the copy of every record. A page looks at a stretch of records, so that no question loads more than that.

-- name: through
SELECT sequence FROM headrace.position

-- name: time_of
SELECT now FROM headrace.records WHERE sequence <= $1 AND now IS NOT NULL ORDER BY sequence DESC LIMIT 1

-- name: of_job
SELECT sequence FROM headrace.facts WHERE about COLLATE "C" = $1 AND sequence > $2 AND sequence <= $3
UNION
SELECT preemptions.ordered FROM headrace.victims JOIN headrace.preemptions USING (preemption)
WHERE victims.job = $1 AND preemptions.ordered > $2 AND preemptions.ordered <= $3
ORDER BY 1 LIMIT $4

-- name: of_all
SELECT DISTINCT facts.sequence FROM headrace.facts JOIN headrace.records USING (sequence)
WHERE facts.sequence > $1 AND facts.sequence <= $2
  AND ($3::text = '' OR facts.about COLLATE "C" >= $3 AND facts.about COLLATE "C" < $4 OR facts.about = rtrim($3, '.')
      OR facts.type = 'preemption.ordered.v1' AND EXISTS (
          SELECT FROM headrace.preemptions JOIN headrace.victims USING (preemption)
          WHERE preemptions.ordered = facts.sequence AND victims.job COLLATE "C" >= $3 AND victims.job COLLATE "C" < $4))
  AND (cardinality($5::text[]) = 0 OR facts.type ^@ ANY ($5))
  AND ($6::text = '' OR facts.about COLLATE "C" = $6 OR records.subject = 'hr.ledger.node.' || $6 OR EXISTS (
      SELECT FROM headrace.leases WHERE leases.lease = facts.sequence * 1000 + facts.place AND leases.node = $6))
ORDER BY 1 LIMIT $7

-- name: is_named
SELECT EXISTS (SELECT FROM headrace.facts WHERE about COLLATE "C" = ANY ($1::text[]))

-- name: knows_user
SELECT EXISTS (SELECT FROM headrace.facts WHERE about COLLATE "C" = ANY ($3::text[]))
    OR EXISTS (SELECT FROM headrace.jobs WHERE tenant = ANY ($1::text[]) AND user_name = $2)

-- name: records
SELECT sequence, payload FROM headrace.records WHERE sequence = ANY ($1::bigint[]) AND void = '' ORDER BY sequence

-- name: jobs_of_id
SELECT job FROM headrace.jobs WHERE right(job, 26) = $2 AND ($1 = '' OR tenant = $1) ORDER BY job LIMIT 10
