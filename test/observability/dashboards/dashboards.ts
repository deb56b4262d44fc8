import type { Dashboard } from './dashboard.ts'
import { gatewayDashboard } from './gateway-dashboard.ts'
import { toGrafana } from './grafana.ts'
import { keysDashboard } from './keys-dashboard.ts'
import { objectivesDashboard } from './objectives-dashboard.ts'

export const DASHBOARDS: readonly Dashboard[] = [gatewayDashboard, keysDashboard, objectivesDashboard]

export function fileOf(dashboard: Dashboard): URL {
  return new URL(`../../../helm/dashboards/${dashboard.file}.json`, import.meta.url)
}

export function textOf(dashboard: Dashboard): string {
  return `${JSON.stringify(toGrafana(dashboard), null, 2)}\n`
}
