import type { KeyObject } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { type OnReload, reloadable } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import { type Clock, systemTimers, type Timers } from '../../domain/clock.ts'
import { deriveMessageKey } from '../../domain/invalidation-message.ts'
import { fingerprintSecret, importSigningSecret } from '../../domain/key/secret.ts'
import { deriveRecordKey } from '../../domain/wire.ts'
import type { ControlLogger } from '../../observability/control-logger.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import type { RedisNetwork } from '../../redis/clients.ts'
import type { RandomBytes } from './database/ids.ts'
import type { ProtectedCall } from './http/calls.ts'

/** One thing that the console can do. `app.ts` lists them; they start in its order and stop in the opposite one. */
export interface Capability {
  /** Its part of the admin API. */
  readonly calls?: readonly ProtectedCall[]
  /** Its pages, in a scope that identifies people and parses forms. */
  readonly registerPages?: (scope: FastifyInstance) => void
  /** Its routes that need neither session nor token. */
  readonly registerOpen?: (app: FastifyInstance) => void
  readonly start?: () => void
  /** Deletes rows past their retention; called once a minute. */
  readonly purge?: () => Promise<void>
  /** Called once the listeners have ended. */
  readonly stop?: () => Promise<void>
}

/** What the capabilities are created from. */
export interface ContextParts {
  readonly config: Config
  readonly metrics: Metrics
  readonly logger: ControlLogger
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  /** Postern's version, for the API reference. */
  readonly version: string
  readonly timers?: Timers
  /** Default: the servers of the settings. */
  readonly redisNetwork?: RedisNetwork
  /** Called when the console has to wait for a dependency before it can start. */
  readonly onWaiting: (part: 'database') => void
  readonly onReload: OnReload<Config>
}

/** The parts with their defaults filled in, and what every component shares. */
export interface ConsoleContext extends ContextParts {
  readonly timers: Timers
  /** From 0 to 1, for jitter. */
  readonly random: () => number
  /** Identifies this process among consoles that share a database or a Redis. */
  readonly consoleId: string
  /** The current secrets; they can change by reload. */
  readonly secrets: { readonly value: ConsoleSecrets }
}

export function createConsoleContext(parts: ContextParts): ConsoleContext {
  const { config, randomBytes, timers = systemTimers, onReload } = parts
  return {
    ...parts,
    timers,
    random: () => (randomBytes(1)[0] ?? 0) / 256,
    consoleId: Buffer.from(randomBytes(4)).toString('hex'),
    secrets: reloadable(config, onReload, importSecrets),
  }
}

/** The first signs records, all verify them. */
export type RecordKeys = readonly [KeyObject, ...KeyObject[]]

/** The console's secrets in the form they are used. */
interface ConsoleSecrets {
  readonly signingKey: KeyObject
  /** The signing key and earlier ones, which still verify. */
  readonly signingKeys: readonly KeyObject[]
  readonly recordKeys: RecordKeys
  /** One for each secret, in their order. */
  readonly fingerprints: readonly string[]
  /** Signs messages to gateways. */
  readonly messageKey: KeyObject
  /** All are accepted; empty: none is. */
  readonly adminTokens: readonly string[]
  readonly keyServiceTokens: readonly string[]
}

/** The first secret signs, all verify. */
export function importSecrets({ keys, console, keyService }: Config): ConsoleSecrets {
  const [first, ...others] = keys.signingSecrets.map(secret => Buffer.from(secret, 'base64'))
  if (first === undefined) {
    throw new Error('keys.signingSecrets: the console needs at least one to sign the keys it issues')
  }
  return {
    signingKey: importSigningSecret(first),
    signingKeys: [first, ...others].map(importSigningSecret),
    recordKeys: [deriveRecordKey(first), ...others.map(deriveRecordKey)],
    fingerprints: [first, ...others].map(fingerprintSecret),
    messageKey: deriveMessageKey(first),
    adminTokens: console.adminToken ?? [],
    keyServiceTokens: keyService.token ?? [],
  }
}
