import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'

export interface Rule {
  readonly record?: string
  readonly alert?: string
  readonly expr: string
  readonly for?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

export interface Alert extends Rule {
  readonly alert: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

const directory = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const filesIn = (path: string, ending: string) =>
  readdirSync(path)
    .filter(name => name.endsWith(ending))
    .map(name => `${path}/${name}`)

export const RULE_FILES: readonly string[] = filesIn(directory('../../helm/alerts'), '.yaml')
export const RUNBOOK_FILES: readonly string[] = filesIn(directory('../../helm/runbooks'), '.md')
export const ALERT_TEST_FILES: readonly string[] = filesIn(directory('alerts'), '.test.yaml')

export const rules: readonly Rule[] = RULE_FILES.flatMap(file => {
  // promtool checks their form.
  const { groups } = parse(readFileSync(file, 'utf8')) as { groups: { rules: Rule[] }[] }
  return groups.flatMap(group => group.rules)
})

export const alerts = rules.filter((rule): rule is Alert => rule.alert !== undefined)
export const recordings = rules.filter((rule): rule is Rule & { record: string } => rule.record !== undefined)
