import { parse, YAMLParseError } from 'yaml'
import { type Setting, sectionPaths, settingByPath, settings } from './settings.ts'

/** Where a value came from, as its writer spelled it. */
export interface Given {
  readonly spelling: string
  readonly value: unknown
}

export interface Mistake {
  readonly spelling: string
  readonly problem: string
  /** The setting or section that it is about, where it is one; empty for a whole file. */
  readonly path?: string
}

const SERVICE_LINK =
  'is what Kubernetes sets for a Service of that name, and no setting: set enableServiceLinks: false on the pod'

/** One layer of settings, by path. */
export type Layer = ReadonlyMap<string, Given>

/** Names that other commands of ours read from the environment; no settings, and no mistake. */
const OTHER_VARIABLES = new Set(['POSTERN_CONFIG', 'POSTERN_CONSOLE_URL'])

/** The layer of a settings file. @param label the file's name, for mistakes */
export function layerOfFile(text: string, label: string, mistakes: Mistake[]): Layer {
  const layer = new Map<string, Given>()
  try {
    const root: unknown = parseYaml(text) ?? {}
    if (isMap(root)) collect(root, '', label, layer, mistakes)
    else
      mistakes.push({
        spelling: label,
        problem: 'must hold settings by name, as config/default.yaml does',
        path: '',
      })
  } catch (error) {
    mistakes.push({ spelling: label, problem: `is not YAML${placeOf(error)}`, path: '' })
  }
  return layer
}

/** The layer of the environment: every `POSTERN_…` must be a setting. An empty one is not set, unless it is a secret. */
export function layerOfEnvironment(environment: NodeJS.ProcessEnv, mistakes: Mistake[]): Layer {
  const layer = new Map<string, Given>()
  const byName = new Map(settings.flatMap(setting => spellings(setting, 'environment')))
  for (const [name, text] of Object.entries(environment)) {
    if (!name.startsWith('POSTERN_') || OTHER_VARIABLES.has(name) || text === undefined) continue
    const known = byName.get(name)
    if (isServiceLink(name, text)) mistakes.push({ spelling: name, problem: SERVICE_LINK })
    else if (known === undefined) mistakes.push({ spelling: name, problem: 'is no setting' })
    else if (text !== '' || known.setting.secret)
      layer.set(known.path, { spelling: name, value: parseText(known.setting, known.path, text) })
  }
  return layer
}

/** The layer of flags. @param flags by spelling: `--upstream-url` */
export function layerOfFlags(flags: ReadonlyMap<string, string>): Layer {
  const layer = new Map<string, Given>()
  for (const known of settings.flatMap(setting => spellings(setting, 'flag'))) {
    const [name, { path, setting }] = known
    const text = flags.get(name)
    if (text !== undefined) layer.set(path, { spelling: name, value: parseText(setting, path, text) })
  }
  return layer
}

/** Each secret has a twin of its name with File added, which names the file that holds it. */
export function spellings(
  setting: Setting,
  kind: 'environment' | 'flag',
): [name: string, known: { path: string; setting: Setting }][] {
  const name = setting[kind]
  const own: [string, { path: string; setting: Setting }] = [name, { path: setting.path, setting }]
  if (!setting.secret) return [own]
  return [own, [name + (kind === 'flag' ? '-file' : '_FILE'), { path: `${setting.path}File`, setting }]]
}

/**
 * Text of an environment variable or flag as the value that the setting's type wants; what cannot be read stays text.
 * A list may be JSON; what goes on behind the bracket, as `[::1]:6379` does, is no JSON.
 */
export function parseText(setting: Setting, path: string, text: string): unknown {
  if (path !== setting.path) return text
  const { type } = setting.schema
  if (type === 'integer' || type === 'number') return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : text
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text
  if (type === 'array' && !/^\s*\[(?![^\]]*\]\s*[:,])/.test(text)) return splitList(text)
  return type === 'array' || type === 'object' ? parseYamlOrText(text) : text
}

export function splitList(text: string): string[] {
  return text
    .split(/[,\n]/)
    .map(item => item.trim())
    .filter(item => item !== '')
}

/** No warnings to the terminal: they, and the parser's own messages, repeat lines of the file, which may be secret. */
function parseYaml(text: string): unknown {
  return parse(text, { logLevel: 'error' })
}

function placeOf(error: unknown): string {
  if (!(error instanceof YAMLParseError)) return ''
  return `: ${error.code.toLowerCase().replaceAll('_', ' ')} in line ${error.linePos?.[0].line ?? 1}`
}

function parseYamlOrText(text: string): unknown {
  try {
    return parseYaml(text)
  } catch {
    return text
  }
}

function collect(
  map: Record<string, unknown>,
  prefix: string,
  label: string,
  layer: Map<string, Given>,
  mistakes: Mistake[],
): void {
  for (const [name, value] of Object.entries(map)) {
    const path = prefix === '' ? name : `${prefix}.${name}`
    const spelling = `${path} (in ${label})`
    if (sectionPaths.has(path)) {
      if (isMap(value)) collect(value, path, label, layer, mistakes)
      else if (value !== null) mistakes.push({ spelling, problem: 'must hold settings by name', path })
    } else if (isSettingOrTwin(path)) {
      if (value !== null || isSecretOrTwin(path)) layer.set(path, { spelling, value })
    } else mistakes.push({ spelling, problem: 'is no setting' })
  }
}

function isSettingOrTwin(path: string): boolean {
  return settingByPath.has(path) || isSecretOrTwin(path)
}

function isSecretOrTwin(path: string): boolean {
  return [path, path.replace(/File$/, '')].some(name => settingByPath.get(name)?.secret === true)
}

/** Kubernetes sets variables for each Service of the namespace, `POSTERN_GATEWAY_PORT=tcp://…` for one called that. */
function isServiceLink(name: string, text: string): boolean {
  return /^(?:tcp|udp|sctp):\/\//.test(text) || /_SERVICE_(?:HOST|PORT)|_PORT_\d+_(?:TCP|UDP|SCTP)/.test(name)
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
