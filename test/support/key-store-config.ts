import type { KeyStoreSettings } from '../../src/keys/create-key-store.ts'
import { SIGNING_SECRET } from './key-records.ts'
import { NOWHERE, type Place } from './redis-group.ts'
import { KEY_SERVICE_TOKEN } from './scripted-key-service.ts'

export interface ConfigChanges {
  readonly redisUrl?: string
  /** Replaces `url` if the topology needs more than an address. */
  readonly place?: Place
  readonly username?: string
  readonly password?: string
  readonly heartbeats?: boolean
  readonly region?: string
  readonly keyServiceUrl?: string
  readonly commandTimeoutMs?: number
  readonly keyServiceTimeoutMs?: number
  readonly staleSeconds?: number
  readonly ttlSeconds?: number
  /** 0 by default: no reports. */
  readonly usageReportSeconds?: number
}

/** Settings of a key store, with the few that tests change. */
export function keyStoreConfig(changes: ConfigChanges): KeyStoreSettings['config'] {
  const { redisUrl, username, password, keyServiceUrl } = changes
  return {
    ...(changes.region === undefined ? {} : { region: changes.region }),
    redis: {
      ...(redisUrl === undefined ? {} : { url: redisUrl }),
      ...(username === undefined ? {} : { username }),
      ...(password === undefined ? {} : { password }),
      ...(changes.place ?? NOWHERE),
      heartbeats: changes.heartbeats ?? true,
      circuit: { failures: 5, openMs: 500 },
      commandTimeoutMs: changes.commandTimeoutMs ?? 250,
      connectTimeoutMs: 500,
    },
    keyService: {
      ...(keyServiceUrl === undefined ? {} : { url: keyServiceUrl, token: [KEY_SERVICE_TOKEN] }),
      circuit: { failures: 5, openMs: 500 },
      timeoutMs: changes.keyServiceTimeoutMs ?? 1_000,
      tls: {},
    },
    keys: {
      format: 'signed',
      prefix: 'wsk_',
      signingSecrets: [SIGNING_SECRET.toString('base64')],
      memory: { ttlSeconds: changes.ttlSeconds ?? 30, absentTtlSeconds: 5, maxEntries: 10_000 },
      staleSeconds: changes.staleSeconds ?? 300,
      unsignedLookups: { perSecond: 1_000, perAddress: 1_000 },
    },
    outgoing: { noProxy: [] },
    usage: {
      enabled: true,
      reportSeconds: changes.usageReportSeconds ?? 0,
      maxEntries: 10_000,
      export: {},
    },
    refusals: { enabled: true },
  }
}
