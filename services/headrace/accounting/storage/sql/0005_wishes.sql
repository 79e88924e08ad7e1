-- A wish that was refused and names no job, and refusals that were counted, are about whose they were: `<tenant>.<user>`.

UPDATE headrace.facts SET about = named.about
FROM (
    SELECT sequence, place, CASE type
        WHEN 'wish.refused.v1' THEN split_part(body->>'subject', '.', 3) || '.' || split_part(body->>'subject', '.', 4)
        ELSE (body->>'tenant') || '.' || (body->>'user') END AS about
    FROM headrace.fact_bodies WHERE type IN ('wish.refused.v1', 'refusals.counted.v1')
) AS named
WHERE facts.sequence = named.sequence AND facts.place = named.place AND named.about ~ '^[a-z0-9-]{1,63}\.[a-z0-9-]{1,63}$';
