import { stringify } from 'yaml'
import { layerOfDefaults } from '../../src/config/layers.ts'
import { type Setting, settings } from '../../src/config/settings.ts'

/** Defaults that the chart's templates use; only the program needs the others. */
const READ_BY_TEMPLATES = [
  'gateway.port',
  'console.port',
  'console.internal.port',
  'ops.port',
  'keys.format',
  'drain.delayMs',
  'drain.timeoutMs',
]

/** What the chart's templates need to know of the settings, as the text of `helm/files/settings.yaml`. */
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
  return `# Written by npm run docs from the program's own schema of settings: not to be edited.\n${stringify({ secrets, defaults })}`
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
