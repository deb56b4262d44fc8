import { isDeepStrictEqual } from 'node:util'
import type { Config } from './schema.ts'
import { settings } from './settings.ts'

/** What a running process can change: secrets, what TLS is done with, and how much is logged. */
export const LIVE_SETTINGS: ReadonlySet<string> = new Set([
  'console.adminToken',
  'console.internal.tls.certFile',
  'console.internal.tls.keyFile',
  'console.internal.tls.clientCaFile',
  'console.oidc.clientSecret',
  'console.oidc.caFile',
  'console.webhook.secret',
  'console.webhook.caFile',
  'upstream.headers',
  'upstream.tls.caFile',
  'upstream.tls.certFile',
  'upstream.tls.keyFile',
  'redis.url',
  'redis.username',
  'redis.password',
  'redis.sentinel.username',
  'redis.sentinel.password',
  'redis.caFile',
  'keyService.token',
  'keyService.tls.caFile',
  'keyService.tls.certFile',
  'keyService.tls.keyFile',
  'keys.signingSecrets',
  'database.url',
  'log.level',
])

/** Settings that name a file whose content is used, beside those of secrets. */
export const FILE_SETTINGS: readonly string[] = settings
  .map(({ path }) => path)
  .filter(path => path.endsWith('File'))

/** Addresses that hold a password: with it they may change, and in nothing else. */
const ADDRESSES = ['redis.url', 'database.url']

export interface Taken {
  /** The settings to run with from now on. */
  readonly config: Config
  /** What changed and can be changed while the process runs. */
  readonly changed: readonly string[]
  /** What changed and waits for a restart. */
  readonly held: readonly string[]
}

/**
 * What a running process takes of settings that were read again.
 * @throws where an address with a password leads elsewhere now: records and keys would be split between two places; and
 * where a secret is gone: what it protected would be open
 */
export function takeOver(running: Config, read: Config): Taken {
  for (const path of ADDRESSES) requireSamePlace(path, valueAt(running, path), valueAt(read, path))
  for (const { path, secret } of settings) if (secret) requireStillThere(path, running, read)
  const different = settings
    .map(({ path }) => path)
    .filter(path => !isDeepStrictEqual(valueAt(running, path), valueAt(read, path)))
  const changed = different.filter(path => LIVE_SETTINGS.has(path))
  const config = structuredClone(running)
  for (const path of changed) setAt(config, path, valueAt(read, path))
  return { config, changed, held: different.filter(path => !LIVE_SETTINGS.has(path)) }
}

export function valueAt(config: Config, path: string): unknown {
  return path.split('.').reduce<unknown>((value, name) => propertyOf(value, name), config)
}

function propertyOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

function setAt(config: Config, path: string, value: unknown): void {
  const names = path.split('.')
  const last = names.pop() ?? path
  // Every setting stands in sections that are always there.
  const section = names.reduce<unknown>((parent, name) => propertyOf(parent, name), config) as object
  if (value === undefined) Reflect.deleteProperty(section, last)
  else Reflect.set(section, last, value)
}

function requireSamePlace(path: string, before: unknown, after: unknown): void {
  if (placeOf(before) === placeOf(after)) return
  throw new Error(
    `${path}: only user and password can change while a process runs; restart it for a new address`,
  )
}

function requireStillThere(path: string, running: Config, read: Config): void {
  if (!isThere(valueAt(running, path)) || isThere(valueAt(read, path))) return
  throw new Error(
    `${path}: is gone; a running process keeps its secrets, so restart it to run without this one`,
  )
}

/** Lists and maps of secrets are there while they hold one. */
function isThere(value: unknown): boolean {
  return typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : value !== undefined
}

function placeOf(address: unknown): string {
  if (typeof address !== 'string') return ''
  if (!URL.canParse(address)) return address
  const url = new URL(address)
  url.username = ''
  url.password = ''
  return url.href
}
