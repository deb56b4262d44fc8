import { stringify } from 'yaml'
import type { Config, RegionSettings } from './schema/schema.ts'
import { settings } from './settings.ts'

const HIDDEN = '[hidden]'

/**
 * The effective settings as YAML that could be loaded again, with secrets hidden.
 * @param removed names of default entries that the settings remove, by setting
 */
export function printConfig(
  config: Config,
  removed: ReadonlyMap<string, readonly string[]> = new Map(),
): string {
  const routes = Object.fromEntries(
    config.routes.map(({ name, responseSchema, ...route }) => [
      name,
      responseSchema === undefined ? route : { ...route, responseSchema: responseSchema.file },
    ]),
  )
  const regions = config.regions.map(hiddenRegion)
  // Secrets are replaced in a copy.
  const copy: Record<string, unknown> = structuredClone({ ...config, routes, regions })
  for (const [path, names] of removed) {
    const nulls = Object.fromEntries(names.map(name => [name, null]))
    copy[path] = { ...Object(copy[path]), ...nulls }
  }
  for (const { path, secret, schema } of settings) {
    if (secret) hide(copy, path.split('.'), schema.format?.endsWith('-url') ? hiddenAddress : hidden)
  }
  return stringify(copy)
}

function hiddenRegion({ name, redis }: RegionSettings) {
  const hiddenPassword = ({ password }: { password?: string }) =>
    password === undefined ? {} : { password: HIDDEN }
  return {
    name,
    redis: {
      ...redis,
      ...(redis.url === undefined ? {} : { url: hiddenAddress(redis.url) }),
      ...hiddenPassword(redis),
      sentinel: { ...redis.sentinel, ...hiddenPassword(redis.sentinel) },
    },
  }
}

function hide(
  parent: Record<string, unknown>,
  path: readonly string[],
  hider: (value: unknown) => unknown,
): void {
  const [name = '', ...rest] = path
  const value = parent[name]
  if (value === undefined) return
  // Everything above a setting is a section.
  if (rest.length > 0) hide(value as Record<string, unknown>, rest, hider)
  else parent[name] = hider(value)
}

/** Lists and maps keep their shape. An empty list is left out: loaded again, it would count as an empty secret. */
function hidden(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? undefined : value.map(() => HIDDEN)
  if (typeof value !== 'object' || value === null) return HIDDEN
  return Object.fromEntries(Object.keys(value).map(name => [name, HIDDEN]))
}

/** Hides the password and the query of an address, as the parser that clients use finds them. */
function hiddenAddress(value: unknown): string {
  const text = String(value)
  if (text.startsWith('sqlite:')) return text.replace(/\?[\s\S]*$/, `?${HIDDEN}`)
  if (!URL.canParse(text)) return HIDDEN
  const { protocol, username, password, host, pathname, search, hash } = new URL(text)
  const login = password === '' ? username : `${username}:${HIDDEN}`
  // An @ after the host probably belongs to a password that was not percent-encoded.
  const path = pathname.includes('@') ? `/${HIDDEN}` : pathname
  const rest = search === '' && hash === '' ? path : `${path}?${HIDDEN}`
  return `${protocol}//${login === '' ? '' : `${login}@`}${host}${rest}`
}
