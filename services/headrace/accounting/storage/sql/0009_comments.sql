-- Comments of columns and tables in plain words. A migration that was applied is not changed, so this one replaces them.

COMMENT ON COLUMN headrace.days.kept IS 'Free units kept for jobs that waited (R16, R27); not charged.';
COMMENT ON TABLE headrace.kept IS 'Free units of a node that were kept for a job that waited: nominated for a preemptor (R27), or held back from jobs that rank below it (R16). Not charged (R37).';
COMMENT ON COLUMN headrace.leases.charged_at IS 'Start of the charge: when all replicas of its job had started. Null: not charged. Not after granted_at: charged from its grant, as before release 0.2.0.';
COMMENT ON COLUMN headrace.days.provider_lost IS 'Held by leases before their jobs ran, or while they never did; lost by the provider, not charged (R36, R37).';
