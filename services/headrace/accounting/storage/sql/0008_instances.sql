-- Instances that pools have created, and what they cost, by offer (R38).

CREATE TABLE headrace.instances (
    instance text PRIMARY KEY,
    pool text NOT NULL,
    provider text NOT NULL,
    provider_id text NOT NULL,
    offer text NOT NULL,
    market text NOT NULL,
    price bigint NOT NULL,
    ordered_at timestamptz NOT NULL,
    created_at timestamptz,
    joined_at timestamptz,
    ended_at timestamptz,
    cause text NOT NULL
);
COMMENT ON TABLE headrace.instances IS 'Every instance that a pool has ordered (R38). price: of an hour, in millionths of the currency.';
COMMENT ON COLUMN headrace.instances.cause IS 'Why it was refused, is to end, or has ended.';

CREATE VIEW headrace.instance_costs AS
    SELECT pool, provider, offer, market, date_trunc('month', created_at AT TIME ZONE 'UTC') AS month,
           count(*) AS instances,
           sum(headrace.microseconds(coalesce(ended_at, position.now) - created_at)) AS microseconds,
           sum(headrace.microseconds(coalesce(joined_at, ended_at, position.now) - created_at)) AS booting,
           trunc(sum(price * headrace.microseconds(coalesce(ended_at, position.now) - created_at)) / 3600000000) AS cost
    FROM headrace.instances CROSS JOIN headrace.position
    WHERE created_at IS NOT NULL
    GROUP BY pool, provider, offer, market, month;
COMMENT ON VIEW headrace.instance_costs IS 'What instances cost by offer and by the month in which they were created, in millionths of the currency; booting: until they joined.';
