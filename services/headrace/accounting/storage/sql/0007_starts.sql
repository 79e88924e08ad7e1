-- What was granted and not yet running: since release 0.2.0 a lease is charged from its real start, and what it held before is the
-- provider's loss (R36, R37). Leases that are there already were charged from their grant, and stay so.

ALTER TABLE headrace.leases ADD COLUMN charged_at timestamptz DEFAULT 'epoch';
ALTER TABLE headrace.leases ALTER COLUMN charged_at DROP DEFAULT;
CREATE INDEX leases_starting ON headrace.leases
    USING brin (coalesce(charged_at, ended_at)) WITH (pages_per_range = 32, autosummarize = on);
COMMENT ON TABLE headrace.leases IS 'What each replica held, where, and when: charged from charged_at to ended_at, by the node''s own clock (R37).';
COMMENT ON COLUMN headrace.leases.charged_at IS 'Since when it is charged: when all replicas of its job had started. Null: it is not, nobody pays; not after granted_at: it was charged from its grant, as before release 0.2.0.';

ALTER TABLE headrace.days ADD COLUMN provider_lost numeric NOT NULL DEFAULT 0;
ALTER TABLE headrace.hours ADD COLUMN provider_lost numeric NOT NULL DEFAULT 0;
ALTER TABLE headrace.node_hours ADD COLUMN provider_lost numeric NOT NULL DEFAULT 0;
COMMENT ON COLUMN headrace.days.provider_lost IS 'Held by leases before their jobs ran, or while they never did; lost by the provider, charged to nobody (R36, R37).';
