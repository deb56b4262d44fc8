import { readFileSync } from 'node:fs'
import { type Fault, faultsOf } from './check-settings.ts'
import { fingerprintOf, fingerprintOfFile } from './fingerprint.ts'
import { formats } from './formats.ts'
import { FILE_SETTINGS, valueAt } from './live-settings.ts'
import { mergeByName, removedNames } from './merge-by-name.ts'
import { checkRules, type Plane } from './rules.ts'
import type { Config } from './schema.ts'
import { configSchema, expectationOf, settingByPath, settings } from './settings.ts'
import {
  type Given,
  type Layer,
  layerOfEnvironment,
  layerOfFile,
  layerOfFlags,
  type Mistake,
  parseText,
} from './sources.ts'

export const DEFAULTS_FILE = new URL('../../config/default.yaml', import.meta.url)

export type LoadedConfig =
  | {
      readonly ok: true
      readonly config: Config
      readonly files: ReadonlyMap<string, string>
      /** Routes and scopes of the defaults that these settings remove, by setting. */
      readonly removed: ReadonlyMap<string, readonly string[]>
    }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] }

/**
 * The effective settings: flags before environment before the named file before `config/default.yaml`.
 * @param sources.planes what is about to run, which decides what is required
 * @returns all mistakes at once, each with the name that its writer used; or the settings, with the files that stand behind
 * them and a fingerprint of what each held
 */
export function loadConfig(sources: {
  environment: NodeJS.ProcessEnv
  flags?: ReadonlyMap<string, string>
  configFile?: string | undefined
  planes: readonly Plane[]
}): LoadedConfig {
  const mistakes: Mistake[] = []
  const defaults = layerOfFile(readFileSync(DEFAULTS_FILE, 'utf8'), 'config/default.yaml', mistakes)
  const layers = [
    defaults,
    layerOfNamedFile(sources.configFile ?? sources.environment['POSTERN_CONFIG'], mistakes),
    layerOfEnvironment(sources.environment, mistakes),
    layerOfFlags(sources.flags ?? new Map()),
  ]
  const given = new Map<string, Given>()
  for (const layer of layers) overlay(given, layer, mistakes)
  const files = new Map<string, string>()
  const read: ReadText = (named, file, path) => readText(named, file, path, mistakes, files)
  readSecretFiles(given, read)
  mistakes.push(...emptySecretsIn(given, defaults))
  const candidate = assemble(given)
  readHeaderFiles(candidate, read, mistakes)
  const known = new Set(mistakes.map(({ path }) => path))
  mistakes.push(...validate(candidate, given).filter(({ path }) => !known.has(path)))
  const isSound = soundOf(mistakes.flatMap(({ path }) => path ?? []))
  if (isSound('routes')) nameRoutes(candidate)
  // A rule is judged where what it reads is sound: of that part the schema has accepted the candidate.
  for (const mistake of checkRules(candidate as unknown as Config, sources.planes, isSound)) {
    const writer = given.get(mistake.spelling)
    // What nobody but ourselves wrote has its plain name.
    const isWritten = writer !== undefined && writer !== defaults.get(mistake.spelling)
    mistakes.push(isWritten ? { ...mistake, spelling: writer.spelling } : mistake)
  }
  if (mistakes.length > 0) return { ok: false, mistakes }
  // The schema has just accepted the candidate: that is what the cast rests on.
  const config = candidate as unknown as Config
  for (const path of FILE_SETTINGS) {
    const file = valueAt(config, path)
    if (typeof file === 'string') files.set(file, fingerprintOfFile(file))
  }
  return { ok: true, config, files, removed: removedNames(defaults, given) }
}

/** @param faulty paths of settings and sections; an empty one is a whole file */
function soundOf(faulty: readonly string[]): (path: string) => boolean {
  const holds = (section: string, path: string) => section === '' || `${path}.`.startsWith(`${section}.`)
  return path => !faulty.some(wrong => holds(wrong, path) || holds(path, wrong))
}

const EMPTY_SECRET = 'is given, and empty: give it the secret, or leave it out'

/** Reads the file that a setting names; null, and a mistake noted, where that cannot be. */
type ReadText = (named: Given, file: string, path: string) => string | null

function layerOfNamedFile(file: string | undefined, mistakes: Mistake[]): Layer {
  if (file === undefined || file === '') return new Map()
  try {
    return layerOfFile(readFileSync(file, 'utf8'), file, mistakes)
  } catch (error) {
    mistakes.push({ spelling: file, problem: `cannot be read: ${reasonOf(error)}`, path: '' })
    return new Map()
  }
}

/** A later layer's secret replaces an earlier one's file, and the other way round; both in one layer contradict. */
function overlay(given: Map<string, Given>, layer: Layer, mistakes: Mistake[]): void {
  for (const [path, value] of layer) {
    const twin = path.endsWith('File') && !settingByPath.has(path) ? path.slice(0, -4) : `${path}File`
    if (layer.has(twin) && twin.endsWith('File')) {
      mistakes.push({
        spelling: value.spelling,
        problem: `is given twice: also as ${layer.get(twin)?.spelling}`,
        path,
      })
    }
    given.delete(twin)
    given.set(path, mergeByName(path, given.get(path), value, mistakes))
  }
}

function readSecretFiles(given: Map<string, Given>, read: ReadText): void {
  for (const setting of settings) {
    const { path, secret } = setting
    const named = given.get(`${path}File`)
    if (!secret || named === undefined) continue
    given.delete(`${path}File`)
    // Without a name there is nothing to read: it is refused as an empty secret is.
    const text = isEmpty(named.value) ? '' : read(named, String(named.value), path)
    if (text !== null) given.set(path, { spelling: named.spelling, value: parseText(setting, path, text) })
  }
}

/**
 * An empty secret is one that got lost on the way: what it protects must not be left open for that. What the defaults leave
 * empty was not given. A map without entries is a statement.
 */
function emptySecretsIn(given: ReadonlyMap<string, Given>, defaults: Layer): Mistake[] {
  return settings.flatMap(({ path, secret }) => {
    const writer = given.get(path)
    if (!secret || writer === undefined || writer === defaults.get(path) || !isEmpty(writer.value)) return []
    return [{ spelling: writer.spelling, problem: EMPTY_SECRET, path }]
  })
}

function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0
  return value === null || (typeof value === 'string' && value.trim() === '')
}

function readHeaderFiles(candidate: Record<string, unknown>, read: ReadText, mistakes: Mistake[]): void {
  const upstream = candidate['upstream'] as { headers?: unknown }
  if (typeof upstream.headers !== 'object' || upstream.headers === null || Array.isArray(upstream.headers))
    return
  const headers = { ...upstream.headers } as Record<string, unknown>
  for (const [name, value] of Object.entries(headers)) {
    const file = typeof value === 'object' && value !== null ? (value as { file?: unknown }).file : undefined
    if (typeof file !== 'string') continue
    const spelling = `upstream.headers.${name}`
    const text = read({ spelling, value: file }, file, 'upstream.headers')
    if (text === '') mistakes.push({ spelling, problem: EMPTY_SECRET, path: 'upstream.headers' })
    else if (text !== null) headers[name] = text
  }
  upstream.headers = headers
}

/** From here on a list, each with its name in it. */
function nameRoutes(candidate: Record<string, unknown>): void {
  // The schema has accepted them.
  const routes = candidate['routes'] as Record<string, object>
  candidate['routes'] = Object.entries(routes).map(([name, route]) => ({ name, ...route }))
}

function readText(
  named: Given,
  file: string,
  path: string,
  mistakes: Mistake[],
  files: Map<string, string>,
): string | null {
  try {
    const bytes = readFileSync(file)
    files.set(file, fingerprintOf(bytes))
    return bytes.toString('utf8').trim()
  } catch (error) {
    mistakes.push({
      spelling: named.spelling,
      problem: `names a file that cannot be read: ${reasonOf(error)}`,
      path,
    })
    return null
  }
}

function assemble(given: ReadonlyMap<string, Given>): Record<string, unknown> {
  const root: Record<string, unknown> = {}
  for (const { path } of settings) {
    const parts = path.split('.')
    const leaf = parts.pop() ?? path
    let parent = root
    for (const part of parts) {
      parent[part] ??= {}
      // Only sections are made here, one line above.
      parent = parent[part] as Record<string, unknown>
    }
    const value = given.get(path)
    if (value !== undefined) parent[leaf] = value.value
  }
  return root
}

function validate(candidate: unknown, given: ReadonlyMap<string, Given>): Mistake[] {
  const mistakes = faultsOf(configSchema, candidate).map(fault => explain(fault, given))
  return [...new Map(mistakes.map(mistake => [mistake.spelling, mistake])).values()]
}

/** The setting that a fault belongs to, and where in it. */
function explain({ place, problem }: Fault, given: ReadonlyMap<string, Given>): Mistake {
  for (let length = place.length; length > 0; length--) {
    const path = place.slice(0, length).join('.')
    const setting = settingByPath.get(path)
    if (setting === undefined) continue
    const spelling = given.get(path)?.spelling ?? path
    const within = place.slice(length).join('.')
    if (within === '') return { spelling, problem: `must be ${expectationOf(setting.schema, formats)}`, path }
    return { spelling: `${spelling}, at ${within}`, problem, path }
  }
  return { spelling: place.join('.'), problem }
}

/** Without the path: somebody may have put the secret itself where the name of its file belongs. */
export function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : ''
  return /^[A-Z]+: [^,]*/.exec(message)?.[0] ?? 'it is no name of a file'
}
