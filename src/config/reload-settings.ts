import { isDeepStrictEqual } from 'node:util'
import type { Config } from './schema/schema.ts'
import { isSet, settings, valueAt } from './settings.ts'

/** Settings that change while a process runs: secrets, TLS material, rate limits and the log level. All others need a restart. */
export const RELOADABLE_SETTINGS: ReadonlySet<string> = new Set([
  'console.adminToken',
  'console.internal.tls.certFile',
  'console.internal.tls.keyFile',
  'console.internal.tls.clientCaFile',
  'console.oidc.clientSecret',
  'console.oidc.caFile',
  'console.webhook.secret',
  'console.webhook.caFile',
  'upstream.headers',
  'upstream.assertion.keyFiles',
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
  'leaks.github.keysFile',
  'leaks.github.caFile',
  'limits.policies',
  'limits.plans',
  'database.url',
  'outgoing.httpsProxy',
  'outgoing.httpProxy',
  'log.level',
])

/** Addresses that may hold a password. Only user and password of them are reloadable. */
const ADDRESSES = ['redis.url', 'database.url', 'outgoing.httpsProxy', 'outgoing.httpProxy']

export interface ReloadedSettings {
  /** The settings to run with from now on. */
  readonly config: Config
  /** Paths of what changed and takes effect now. */
  readonly changed: readonly string[]
  /** Paths of what changed and takes effect after a restart. */
  readonly needRestart: readonly string[]
}

/**
 * The running settings with the reloadable ones of those that were read anew.
 * @throws if an address names another server now, which would split records and keys between two; and if a secret was
 * removed, which would open what it protects
 */
export function reloadSettings(running: Config, read: Config): ReloadedSettings {
  for (const path of ADDRESSES) requireSameTarget(path, valueAt(running, path), valueAt(read, path))
  for (const { path, secret } of settings) if (secret) requireStillSet(path, running, read)
  const different = settings
    .map(({ path }) => path)
    .filter(path => !isDeepStrictEqual(valueAt(running, path), valueAt(read, path)))
  const isReloadable = (path: string) =>
    RELOADABLE_SETTINGS.has(path) ||
    (path === 'regions' && isDeepStrictEqual(withoutLogins(running), withoutLogins(read)))
  const changed = different.filter(isReloadable)
  const config = structuredClone(running)
  for (const path of changed) setAt(config, path, valueAt(read, path))
  return { config, changed, needRestart: different.filter(path => !isReloadable(path)) }
}

function setAt(config: Config, path: string, value: unknown): void {
  const names = path.split('.')
  const last = names.pop() ?? path
  // Sections are objects, and always present.
  const section = names.length === 0 ? config : (valueAt(config, names.join('.')) as object)
  if (value === undefined) Reflect.deleteProperty(section, last)
  else Reflect.set(section, last, value)
}

function requireSameTarget(path: string, before: unknown, after: unknown): void {
  if (withoutLogin(before) === withoutLogin(after)) return
  throw new Error(
    `${path}: only user and password can change while a process runs; restart it for a new address`,
  )
}

function requireStillSet(path: string, running: Config, read: Config): void {
  if (!isSet(valueAt(running, path)) || isSet(valueAt(read, path))) return
  throw new Error(
    `${path}: was removed; a running process keeps its secrets, so restart it to run without this one`,
  )
}

function withoutLogin(address: unknown): string {
  if (typeof address !== 'string') return ''
  // The address of a socket is no URL where it has a user and no host.
  if (!URL.canParse(address)) return address.replace(/^([a-z]+:\/\/)[^/?]*@/i, '$1')
  const url = new URL(address)
  url.username = ''
  url.password = ''
  return url.href
}

/** Regions without users and passwords, which may change. */
function withoutLogins({ regions }: Config): unknown {
  return regions.map(
    ({ name, redis: { username: _, password: __, caFile: ___, url, sentinel, ...redis } }) => ({
      name,
      redis,
      url: withoutLogin(url),
      sentinel: { name: sentinel.name, urls: sentinel.urls },
    }),
  )
}
