import { sql } from 'kysely'
import type { CreateTables } from '../platform/database/migrations.ts'

/** Changes that wait to be announced to each region, and what gateways have confirmed. */
export const announcingTables: CreateTables = (_dialect, text) => [
  sql`create table regions (name ${text} primary key, seen_at_ms bigint not null, requeued_until ${text})`,
  sql`create table outbox (
    region ${text} not null, digest ${text} not null, version integer not null, at_ms bigint not null,
    claimed_by ${text} not null default '', claimed_until_ms bigint not null default 0,
    primary key (region, digest, version))`,
  sql`create index outbox_by_time on outbox (region, at_ms)`,
  sql`create table gateways (
    id ${text} primary key, name ${text} not null, region ${text} not null, seen_at_ms bigint not null,
    disconnected_at_ms bigint not null)`,
  sql`create table confirmations (
    digest ${text} not null, version integer not null, gateway_id ${text} not null, at_ms bigint not null,
    primary key (digest, version, gateway_id))`,
  sql`create index confirmations_by_time on confirmations (at_ms)`,
]
