/** Something wrong with the settings. */
export interface ConfigProblem {
  /** The setting as it was written: `POSTERN_OPS_PORT`, `--ops-port`, `postern.yaml:12: ops.port`. */
  readonly source: string
  /** Never repeats a value, which may be secret. */
  readonly problem: string
  /** The setting or section concerned; empty for a whole file, absent for an unknown name. */
  readonly path?: string
}

/** Settings that a process cannot start with. The message names every problem, one a line. */
export class ConfigError extends Error {
  constructor(problems: readonly ConfigProblem[]) {
    const lines = problems.map(({ source, problem }) => `  ${source}: ${problem}\n`)
    const count = lines.length === 1 ? 'One setting is' : `${lines.length} settings are`
    super(`${count} wrong:\n${lines.join('')}`)
  }
}
