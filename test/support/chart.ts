import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse, parseAllDocuments, stringify } from 'yaml'
import { type LoadedConfig, loadConfig } from '../../src/config/load-config.ts'
import type { Plane } from '../../src/config/rules.ts'
import { at, listAt, type Manifest, textAt } from './manifests.ts'

export const CHART = fileURLToPath(new URL('../../helm/', import.meta.url))
export const RELEASE = 'acme'
/** Name of the chart's objects in this release. */
export const NAME = `${RELEASE}-postern`
const SECRETS = '/etc/postern/secrets'

/** The smallest valid values, to which a test adds its own. */
export const MINIMAL = {
  image: { repository: 'registry.example.com/postern' },
  config: { upstream: { url: 'http://workspaces:8080' } },
  secrets: {
    redis: { url: { existingSecret: 'postern-redis' } },
    keys: { signingSecrets: { existingSecret: 'postern-keys' } },
  },
}

/** Gateway and console with SQLite. The chart generates the signing secret and both tokens. */
export const WITH_CONSOLE = {
  image: MINIMAL.image,
  config: MINIMAL.config,
  secrets: { redis: MINIMAL.secrets.redis },
  console: { enabled: true },
}

/** The example values in `ci/`. */
export const CI_FILES: readonly string[] = readdirSync(join(CHART, 'ci')).sort()

export type Values = Readonly<Record<string, unknown>>

export interface Rendering {
  readonly ok: boolean
  readonly stderr: string
  readonly objects: readonly Manifest[]
  /** The one object of a kind whose name has this ending. @throws if there is none, or more than one */
  get(kind: string, nameEnd?: string): Manifest
  all(kind: string): readonly Manifest[]
}

export interface RenderOptions {
  /** Names of files in `ci/`. */
  readonly files?: readonly string[]
  readonly args?: readonly string[]
  readonly chart?: string
  readonly helm?: string
  /** Renders as given; otherwise the chart may generate secrets, although no test has a cluster. */
  readonly refusesToGenerate?: boolean
}

const rendered = new Map<string, Rendering>()

/** Output of `helm template`, cached by values. */
export function render(values: Values = {}, options: RenderOptions = {}): Rendering {
  const key = JSON.stringify([values, options])
  const known = rendered.get(key) ?? renderAnew(values, options)
  rendered.set(key, known)
  return known
}

function renderAnew(
  values: Values,
  { files = [], args = [], chart = CHART, helm, refusesToGenerate = false }: RenderOptions,
): Rendering {
  const named = files.flatMap(file => ['-f', join(CHART, 'ci', file)])
  const allowed = refusesToGenerate ? [] : ['--set', 'generatedSecret.withoutCluster=true']
  const { ok, stdout, stderr } = runHelm(
    ['template', RELEASE, chart, '--kube-version', '1.31.0', ...named, '-f', '-', ...allowed, ...args],
    stringify(values),
    helm,
  )
  // Helm prints a JSON document for each template; empty ones are skipped.
  const objects = ok
    ? parseAllDocuments(stdout)
        .map(document => document.toJS() as Manifest | null)
        .filter(object => object !== null)
    : []
  const all = (kind: string) => objects.filter(object => object['kind'] === kind)
  const get = (kind: string, nameEnd = '') => {
    const found = all(kind).filter(object => textAt(object, 'metadata.name').endsWith(nameEnd))
    const [only] = found
    if (only === undefined || found.length > 1) {
      throw new Error(`${found.length} objects of kind ${kind} with a name ending in ${nameEnd}\n${stderr}`)
    }
    return only
  }
  return { ok, stderr, objects, all, get }
}

export function runHelm(
  args: readonly string[],
  input = '',
  helm = 'helm',
): { ok: boolean; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync(helm, args, {
    input,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  return { ok: status === 0, stdout, stderr }
}

/** Pods of a rendering, each with the object that owns it. */
export function podsOf(rendering: Rendering): { owner: string; metadata: Manifest; spec: Manifest }[] {
  return rendering.objects.flatMap(object => {
    const owner = `${textAt(object, 'kind')} ${textAt(object, 'metadata.name')}`
    if (object['kind'] === 'Pod')
      return [{ owner, metadata: at(object, 'metadata'), spec: at(object, 'spec') }]
    if (object['kind'] === 'CronJob') {
      const template = at(object, 'spec.jobTemplate.spec.template')
      return [{ owner, metadata: at(template, 'metadata'), spec: at(template, 'spec') }]
    }
    if (object['kind'] !== 'Deployment' && object['kind'] !== 'StatefulSet') return []
    return [{ owner, metadata: at(object, 'spec.template.metadata'), spec: at(object, 'spec.template.spec') }]
  })
}

/** The pod of the gateway or the console. */
export function podOf(rendering: Rendering, plane: Plane): { metadata: Manifest; spec: Manifest } {
  const pod = podsOf(rendering).find(({ owner }) => owner.endsWith(`-${plane}`))
  if (pod === undefined) throw new Error(`The rendering has no pod for the ${plane}\n${rendering.stderr}`)
  return pod
}

/** The settings file of a plane's pod, which mounts its own annotation. */
export function settingsText(rendering: Rendering, plane: Plane): string {
  return settingsFileOf(podOf(rendering, plane))
}

/** @param pod with metadata and spec, or the template of one */
export function settingsFileOf(pod: unknown): string {
  const volume = listAt(pod, 'spec.volumes').find(({ name }) => name === 'config')
  const [item] = listAt(volume, 'downwardAPI.items')
  const annotation = /^metadata\.annotations\['(.+)'\]$/.exec(textAt(item, 'fieldRef.fieldPath'))?.[1] ?? ''
  return textAt(pod, 'metadata.annotations', annotation)
}

export function settingsOf(rendering: Rendering, plane: Plane): Manifest {
  return parse(settingsText(rendering, plane)) as Manifest
}

/** Files in a plane's directory of secrets, each with its source, such as `postern-redis/redis-url`. */
export function mountedSecrets(rendering: Rendering, plane: Plane): Record<string, string> {
  const volume = listAt(podOf(rendering, plane).spec, 'volumes').find(({ name }) => name === 'secrets')
  if (volume === undefined) return {}
  const sources = listAt(volume, 'projected.sources').flatMap(source => {
    const kind = 'secret' in source ? 'secret' : 'configMap'
    const name = textAt(source, `${kind}.name`)
    return listAt(source, `${kind}.items`).map(item => [
      textAt(item, 'path'),
      `${name}/${textAt(item, 'key')}`,
    ])
  })
  return Object.fromEntries(sources) as Record<string, string>
}

/**
 * Loads the settings that the chart renders for a plane, with the files that the pod mounts.
 * @param contents of the mounted files, by name
 */
export function loadRendered(
  rendering: Rendering,
  plane: Plane,
  contents: (file: string) => string,
): LoadedConfig {
  const directory = mkdtempSync(join(tmpdir(), 'postern-chart-'))
  try {
    for (const file of Object.keys(mountedSecrets(rendering, plane))) {
      writeFileSync(join(directory, file), contents(file))
    }
    const configFile = join(directory, 'postern.yaml')
    const text = settingsText(rendering, plane)
    // Files that another program than Kubernetes writes.
    for (const [, file = ''] of text.matchAll(/\/vault\/secrets\/(\S+)/g)) {
      writeFileSync(join(directory, file), contents(file))
    }
    const inDirectory = text.replaceAll(SECRETS, directory).replaceAll('/vault/secrets', directory)
    writeFileSync(configFile, inDirectory)
    return loadConfig({ environment: {}, configFile, planes: [plane] })
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

export function readCi(file: string): string {
  return readFileSync(join(CHART, 'ci', file), 'utf8')
}
