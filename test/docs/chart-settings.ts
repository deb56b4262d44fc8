import { layerOfDefaults } from '../../src/config/layers.ts'
import type { Plane } from '../../src/config/rules.ts'
import { type Setting, settings } from '../../src/config/settings.ts'
import { PUBLIC_NETWORKS, SPECIAL_NETWORKS } from '../../src/domain/form/address.ts'

/** Defaults that the chart's templates use; only the program needs the others. */
const READ_BY_TEMPLATES = [
  'gateway.port',
  'console.port',
  'console.internal.port',
  'ops.port',
  'keys.format',
  'drain.delayMs',
  'drain.timeoutMs',
  'leaks.github.keysUrl',
]

/** Settings, and whole sections, that a plane does not use. Values of that plane alone must not have them. */
export const FOREIGN_SETTINGS: Readonly<Record<Plane, readonly string[]>> = {
  gateway: ['console', 'database', 'regions', 'leaks', 'webhooks'],
  console: [
    ...['gateway', 'upstream', 'region', 'limits.replicas', 'metrics.workspaces', 'tracing'],
    ...['redis.heartbeats', 'keyService.url', 'keyService.circuit', 'keyService.timeoutMs', 'keyService.tls'],
    ...['keys.memory', 'keys.unsignedLookups', 'keys.staleSeconds'],
    ...['usage.reportSeconds', 'usage.maxEntries', 'usage.export'],
  ],
}

/**
 * What the chart's templates need to know of the settings, as the text of `helm/files/settings.json`: Helm reads JSON in a
 * tenth of the time. `npm run docs` writes it.
 */
export function chartSettings(): string {
  const byDefault = layerOfDefaults()
  const defaults: Record<string, unknown> = {}
  for (const path of READ_BY_TEMPLATES) put(defaults, path.split('.'), byDefault.get(path)?.value)
  const secrets = settings
    .filter(setting => setting.secret)
    .map(setting => ({
      path: setting.path,
      environment: setting.environment,
      address: isAddress(setting),
    }))
  const known = { secrets, defaults, foreign: FOREIGN_SETTINGS, publicNetworks: publicNetworks() }
  return `${JSON.stringify(known, null, 2)}\n`
}

/** What the console takes for the public Internet, as ipBlocks of a NetworkPolicy. */
function publicNetworks() {
  const isIpv6 = (cidr: string) => cidr.includes(':')
  return PUBLIC_NETWORKS.map(cidr => ({
    cidr,
    except: SPECIAL_NETWORKS.filter(special => isIpv6(special) === isIpv6(cidr)),
  }))
}

function put(tree: Record<string, unknown>, [name = '', ...rest]: readonly string[], value: unknown): void {
  if (rest.length === 0) {
    tree[name] = value
    return
  }
  tree[name] ??= {}
  // Only maps are created here, one line above, and no setting has the name of a section.
  put(tree[name] as Record<string, unknown>, rest, value)
}

/** An address is secret only if it contains a password; otherwise it may be in the chart's values. */
export function isAddress({ schema }: Setting): boolean {
  return (schema.format ?? schema.items?.format ?? '').endsWith('-url')
}
