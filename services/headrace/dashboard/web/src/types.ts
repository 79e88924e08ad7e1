// Messages of the API that the page reads. Fields that are empty are left out of answers.

export interface PoolKey {
  key: string;
  capacity?: string;
  usable?: string;
  used?: string;
  free?: string;
  kept?: string;
  unusable?: string;
  causes?: { node?: string; cause?: string; amount?: string; by?: string }[];
}

export interface Pool {
  name: string;
  keys?: PoolKey[];
  nodes?: number;
  closed?: string;
}

export interface ScopeUse {
  key: string;
  used?: string;
  reservation?: string;
  limit?: string;
  reserved?: string;
  borrowed?: string;
}

export interface Budget {
  key: string;
  hours?: string;
  per?: string;
  then?: string;
  used?: string;
  spent?: boolean;
}

export interface Queue {
  name: string;
  policy: string;
  profile: string;
  group?: string;
  pending?: string;
  running?: string;
  scopes?: ScopeUse[];
  closed?: string;
  shut?: boolean;
  budgets?: Budget[];
}

export interface Overview {
  sequence: string;
  time?: string;
  tip?: string;
  pools?: Pool[];
  queues?: Queue[];
  nodes?: {
    name?: string[];
    pool?: string[];
    state?: string[];
    model?: string[];
    /** Times in seconds since 1970. */
    maintenance?: { node?: number[]; kind?: string[]; begin?: string[]; end?: string[]; reason?: string[]; scheduled_by?: string[] };
  };
  devices?: {
    node?: number[];
    name?: string[];
    used?: number[];
    kept?: number[];
    unfit?: string[];
    shares?: { device?: number[]; holder?: number[]; units?: number[]; mig?: string[]; start?: number[] };
  };
  holders?: {
    id?: string[];
    display_name?: string[];
    tenant?: string[];
    user?: string[];
    queue?: string[];
    state?: string[];
    since?: string[];
  };
}

export interface Event {
  sequence: string;
  number?: number;
  time?: string;
  by?: string;
  type?: string;
  about?: string;
  text?: string;
  rule?: string;
}

/** In the order of the devices of the overview; -1: unknown. */
export interface Loads {
  busy?: number[];
  idle?: number[];
}

export interface Change {
  sequence: string;
  time?: string;
  overview?: Overview;
  events?: Event[];
  left_out?: number;
  loads?: Loads;
}

export interface Attempt {
  attempt: number;
  pool?: string;
  nodes?: string[];
  devices?: string[];
  grant_time?: string;
  start_time?: string;
  end_time?: string;
  exit_code?: number;
  cause?: string;
  resume_from?: string;
}

export interface Job {
  name: string;
  user: string;
  display_name?: string;
  queue: string;
  state: string;
  reason?: string;
  message?: string;
  preemptible?: boolean;
  priority?: number;
  request?: Record<string, string>;
  mig?: string;
  replicas?: number;
  labels?: Record<string, string>;
  admit_time?: string;
  end_time?: string;
  preemptions?: number;
  exit_code?: number;
  checkpoint?: string;
  attempts?: Attempt[];
}

/** A fact in the history of a job. */
export interface Fact {
  record: string;
  time?: string;
  by?: string;
  type?: string;
  text?: string;
  rule?: string;
}

/** One key that a waiting job asks for in a pool. */
export interface Need {
  key: string;
  asked?: string;
  free?: string;
  missing?: string;
  used?: string;
  kept?: string;
  unusable?: string;
  capacity?: string;
}

/** A job that holds what another needs; without `job`: all jobs of other tenants together. */
export interface HeldBy {
  job?: string;
  user?: string;
  request?: Record<string, string>;
  pool?: string;
  nodes?: string[];
  preemptible?: boolean;
  until_time?: string;
}

export interface Explanation {
  state: string;
  reason?: string;
  message?: string;
  position?: string;
  expected_start_time?: string;
  assumption?: string;
  pools?: { pool: string; reason?: string; message?: string; keys?: Need[] }[];
  behind?: { job?: string; user?: string; request?: Record<string, string> }[];
  behind_more?: string;
  holders?: HeldBy[];
  holders_more?: string;
  reclaim?: { could?: boolean; why?: string; from_time?: string; victims?: HeldBy[] };
  cheapest?: { kind?: string; text?: string; start_time?: string; job?: string; queue?: string; request?: Record<string, string> };
  notes?: string[];
}

/** One line of the audit log. */
export interface Line {
  sequence: string;
  place?: number;
  time?: string;
  by?: string;
  type?: string;
  about?: string;
  text?: string;
  rule?: string;
  as_of?: string;
  engine?: string;
  because?: string[];
}
