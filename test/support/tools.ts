import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { postgresPrograms } from './postgres-programs.ts'

/** A program that tests run, and the Debian package that contains it. */
export interface Tool {
  readonly program: string
  readonly debianPackage: string
  /** Command that installs it if Debian has no package. */
  readonly otherwise?: string
  /** Detects it if its name alone is not enough. */
  readonly isHere?: () => boolean
}

export const REDIS: Tool = { program: 'redis-server', debianPackage: 'redis-server' }
/** For the commands of docs/bring-your-own-keys.md. */
export const OPENSSL: Tool = { program: 'openssl', debianPackage: 'openssl' }
export const REDIS_CLI: Tool = { program: 'redis-cli', debianPackage: 'redis-tools' }
export const PROMTOOL: Tool = { program: 'promtool', debianPackage: 'prometheus' }
export const PROMETHEUS: Tool = { program: 'prometheus', debianPackage: 'prometheus' }
export const CURL: Tool = { program: 'curl', debianPackage: 'curl' }
export const JQ: Tool = { program: 'jq', debianPackage: 'jq' }
export const SQLITE: Tool = { program: 'sqlite3', debianPackage: 'sqlite3' }
/** For Python packages: the Kubernetes schemas, Schemathesis and PyJWT. Debian splits `ensurepip` from Python. */
export const PYTHON: Tool = {
  program: 'python3',
  debianPackage: 'python3-venv',
  isHere: () => spawnSync('python3', ['-c', 'import ensurepip']).status === 0,
}
/** Builds the verifier of docs/upstream.md, the programs of `test/kubernetes` and the parser of `docker compose`. */
export const GO: Tool = { program: 'go', debianPackage: 'golang-go' }
export const JAVA: Tool = { program: 'java', debianPackage: 'openjdk-17-jdk-headless' }
export const HELM: Tool = {
  program: 'helm',
  debianPackage: '',
  otherwise: 'go install helm.sh/helm/v3/cmd/helm@v3.18.6',
}
export const GITLEAKS: Tool = {
  program: 'gitleaks',
  debianPackage: '',
  otherwise: 'go install github.com/zricethezav/gitleaks/v8@v8.30.1',
}
export const ACTIONLINT: Tool = {
  program: 'actionlint',
  debianPackage: '',
  otherwise: 'go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12',
}
/** Debian keeps it off the path. A configured server replaces it. */
export const POSTGRES: Tool = {
  program: 'postgres',
  debianPackage: 'postgresql',
  isHere: () => (process.env['POSTERN_TEST_DATABASE_URL'] ?? '') !== '' || postgresPrograms() !== null,
}
/** Checks the units of docs/operate/systemd; part of most systems, but not of containers. */
export const SYSTEMD: Tool = { program: 'systemd-analyze', debianPackage: 'systemd' }
/** Shells for which the command line writes completion scripts. */
export const ZSH: Tool = { program: 'zsh', debianPackage: 'zsh' }
export const FISH: Tool = { program: 'fish', debianPackage: 'fish' }
/** Creates pseudo-terminals; part of every Debian. */
export const SCRIPT: Tool = { program: 'script', debianPackage: 'bsdutils' }

/** Debian keeps servers off a user's path. */
export const HAPROXY: Tool = { program: 'haproxy', debianPackage: 'haproxy' }
export const NGINX: Tool = { program: 'nginx', debianPackage: 'nginx-light' }

/** Debian keeps it off a user's path. */
export const PGBOUNCER: Tool = {
  program: 'pgbouncer',
  debianPackage: 'pgbouncer',
  isHere: () => existsSync('/usr/sbin/pgbouncer'),
}
export const CADDY: Tool = { program: 'caddy', debianPackage: 'caddy' }

/** Part of every Debian. */
export const PRLIMIT: Tool = { program: 'prlimit', debianPackage: 'util-linux' }
export const CHROMIUM: Tool = { program: 'chromium', debianPackage: 'chromium' }

export const VARNISH: Tool = { program: 'varnishd', debianPackage: 'varnish' }
export const FAKETIME: Tool = { program: 'faketime', debianPackage: 'faketime' }
/** Build the image, on stand-ins for its base images. */
export const BUILDAH: Tool = { program: 'buildah', debianPackage: 'buildah' }
/** Debian keeps it off a user's path. */
export const DEBOOTSTRAP: Tool = {
  program: 'debootstrap',
  debianPackage: 'debootstrap',
  isHere: () => existsSync('/usr/sbin/debootstrap'),
}

/** Only some suites need these; they are skipped by name, or fail if CI is set. By the names that tests import. */
export const TOOLS: Readonly<Record<string, Tool>> = {
  OPENSSL,
  REDIS_CLI,
  PROMTOOL,
  PROMETHEUS,
  CURL,
  JQ,
  SQLITE,
  POSTGRES,
  PGBOUNCER,
  SCRIPT,
  SYSTEMD,
  ZSH,
  FISH,
  HELM,
  GITLEAKS,
  ACTIONLINT,
  PYTHON,
  GO,
  JAVA,
  HAPROXY,
  NGINX,
  CADDY,
  PRLIMIT,
  CHROMIUM,
  FAKETIME,
  VARNISH,
  BUILDAH,
  DEBOOTSTRAP,
}

/** @returns their names, each with what installs it; empty if none is missing */
export function missingTools(): string {
  const missing = Object.values(TOOLS).filter(tool => !has(tool))
  return missing
    .map(tool => `${tool.program} (${tool.otherwise ?? `Debian: ${tool.debianPackage}`})`)
    .join(', ')
}

export function has(tool: Tool): boolean {
  if (tool.isHere !== undefined) return tool.isHere()
  return spawnSync('sh', ['-c', `command -v ${tool.program}`]).status === 0
}

/** Installs a program with the system's package manager. @throws if the tests do not run as root on Debian */
export function install(tool: Tool, isRoot = process.getuid?.() === 0): void {
  if (!isRoot || !existsSync('/usr/bin/apt-get')) {
    throw new Error(`${tool.debianPackage} can be installed only by root on Debian`)
  }
  process.stdout.write(`Installing ${tool.debianPackage}, which the tests need\n`)
  // RUNLEVEL=1 keeps Debian from starting it as a service; the tests start their own.
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  for (const words of [['update'], ['install', '-y', '--no-install-recommends', tool.debianPackage]]) {
    const { status, stderr } = spawnSync('apt-get', ['-qq', ...words], { env, encoding: 'utf8' })
    const error = stderr.split('\n').find(line => line.startsWith('E: ')) ?? ''
    if (status !== 0) throw new Error(`apt-get ${words[0]} ended with ${status} (${error})`)
  }
}
