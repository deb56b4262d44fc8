import { parse, YAMLParseError } from 'yaml'
import type { ConfigProblem } from './config-error.ts'
import { mergeByName } from './merge-by-name.ts'
import {
  type GivenValue,
  type Layer,
  type Setting,
  sectionPaths,
  settingByPath,
  settings,
  spellingsOf,
} from './settings.ts'
import { similarTo } from './similar-name.ts'

/** Variables that other commands of ours read. */
const OTHER_VARIABLES = new Set(['POSTERN_CONFIG', 'POSTERN_CONSOLE_URL'])

const SERVICE_LINK =
  'is set by Kubernetes for a Service of that name, and is not a setting: set enableServiceLinks: false on the pod'
/** Every name that a file can hold. */
const FILE_NAMES = [
  ...sectionPaths,
  ...settings.flatMap(({ path, secret }) => (secret ? [path, `${path}File`] : [path])),
]

export function layerOfDefaults(): Layer {
  const withDefault = settings.filter(({ schema }) => schema.default !== undefined)
  // Copies: a process may change the settings that it runs with.
  return new Map(
    withDefault.map(({ path, schema }) => [path, { spelling: path, value: structuredClone(schema.default) }]),
  )
}

/** @param label the file's name, for problems */
export function layerOfFile(text: string, label: string, problems: ConfigProblem[]): Layer {
  const layer = new Map<string, GivenValue>()
  try {
    const root: unknown = parseYaml(text) ?? {}
    if (isMap(root)) collect(root, '', label, layer, problems)
    else {
      const problem = 'must hold settings by name, as config/default.yaml does'
      problems.push({ spelling: label, problem, path: '' })
    }
  } catch (error) {
    problems.push({ spelling: label, problem: `is not valid YAML${lineOf(error)}`, path: '' })
  }
  return layer
}

/**
 * Every `POSTERN_…` must be a setting. An empty one counts as not set, unless it is a secret. Those of other names belong to
 * other programs, too: empty, they count as not set.
 */
export function layerOfEnvironment(environment: NodeJS.ProcessEnv, problems: ConfigProblem[]): Layer {
  const layer = new Map<string, GivenValue>()
  const spellings = settings.flatMap(setting => spellingsOf(setting, 'environment'))
  const byName = new Map(spellings.map(spelling => [spelling.name, spelling]))
  for (const [name, text] of Object.entries(environment)) {
    if (!name.startsWith('POSTERN_') || OTHER_VARIABLES.has(name) || text === undefined) continue
    const known = byName.get(name)
    if (isServiceLink(name, text)) problems.push({ spelling: name, problem: SERVICE_LINK })
    else if (known === undefined) problems.push({ spelling: name, problem: unknown(name, byName.keys()) })
    else if (text !== '' || known.setting.secret)
      layer.set(known.path, { spelling: name, value: parseText(known.setting, known.path, text) })
  }
  for (const { name, path, setting } of spellings.filter(({ name }) => !name.startsWith('POSTERN_'))) {
    const spelling = [name.toLowerCase(), name].find(variable => (environment[variable] ?? '').trim() !== '')
    if (spelling === undefined) continue
    const text = (environment[spelling] ?? '').trim()
    // NO_PROXY is separated by commas, blanks or both.
    const separated = setting.schema.type === 'array' ? text.replace(/\s+/g, ',') : text
    layer.set(path, { spelling, value: parseText(setting, path, separated) })
  }
  return layer
}

/** @param flags by spelling: `--upstream-url` */
export function layerOfFlags(flags: ReadonlyMap<string, string>): Layer {
  const layer = new Map<string, GivenValue>()
  for (const { name, path, setting } of settings.flatMap(setting => spellingsOf(setting, 'flag'))) {
    const text = flags.get(name)
    if (text !== undefined) layer.set(path, { spelling: name, value: parseText(setting, path, text) })
  }
  return layer
}

/** A later layer replaces an earlier one, or is merged by name; its secret also replaces the earlier one's file, and the other way round. */
export function overlay(layers: readonly Layer[], problems: ConfigProblem[]): Map<string, GivenValue> {
  const merged = new Map<string, GivenValue>()
  for (const layer of layers) {
    for (const [path, value] of layer) {
      const twin = path.endsWith('File') && !settingByPath.has(path) ? path.slice(0, -4) : `${path}File`
      const fileTwin = twin.endsWith('File') ? layer.get(twin) : undefined
      if (fileTwin !== undefined) {
        problems.push({
          spelling: value.spelling,
          problem: `is set twice: also as ${fileTwin.spelling}`,
          path,
        })
      }
      merged.delete(twin)
      merged.set(path, mergeByName(path, merged.get(path), value, problems))
    }
  }
  return merged
}

/**
 * The text of a variable, flag or secret file as the type of its setting; what cannot be converted stays text. A list may
 * be JSON; `[::1]:6379` is not.
 */
export function parseText(setting: Setting, path: string, text: string): unknown {
  if (path !== setting.path) return text
  const { type } = setting.schema
  if (type === 'integer' || type === 'number') return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : text
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text
  const isListOfTexts = type === 'array' && setting.schema.items?.type !== 'object'
  if (isListOfTexts && !/^\s*\[(?![^\]]*\]\s*[:,])/.test(text)) return splitList(text)
  return type === 'array' || type === 'object' ? parseYamlOrText(text) : text
}

function splitList(text: string): string[] {
  return text
    .split(/[,\n]/)
    .map(item => item.trim())
    .filter(item => item !== '')
}

/** Warnings stay off the terminal: like the parser's messages, they repeat lines of the file, which may be secret. */
function parseYaml(text: string): unknown {
  return parse(text, { logLevel: 'error' })
}

function lineOf(error: unknown): string {
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
  layer: Map<string, GivenValue>,
  problems: ConfigProblem[],
): void {
  for (const [name, value] of Object.entries(map)) {
    const path = prefix === '' ? name : `${prefix}.${name}`
    const spelling = `${path} (in ${label})`
    if (sectionPaths.has(path)) {
      if (isMap(value)) collect(value, path, label, layer, problems)
      else if (value !== null) problems.push({ spelling, problem: 'must hold settings by name', path })
    } else if (settingByPath.has(path) || isSecretOrTwin(path)) {
      if (value !== null || isSecretOrTwin(path))
        layer.set(path, { spelling, value: listOfSecrets(path, value) })
    } else problems.push({ spelling, problem: unknown(path, FILE_NAMES) })
  }
}

/** A list of secrets may be one text, as in a variable. */
function listOfSecrets(path: string, value: unknown): unknown {
  const setting = settingByPath.get(path)
  if (typeof value !== 'string' || setting?.secret !== true || setting.schema.type !== 'array') return value
  return parseText(setting, path, value)
}

function unknown(name: string, known: Iterable<string>): string {
  return `is not a setting${similarTo(name, known)}`
}

function isSecretOrTwin(path: string): boolean {
  return [path, path.replace(/File$/, '')].some(name => settingByPath.get(name)?.secret === true)
}

/** Kubernetes sets variables for each Service of the namespace, such as `POSTERN_GATEWAY_PORT=tcp://…`. */
function isServiceLink(name: string, text: string): boolean {
  return /^(?:tcp|udp|sctp):\/\//.test(text) || /_SERVICE_(?:HOST|PORT)|_PORT_\d+_(?:TCP|UDP|SCTP)/.test(name)
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
