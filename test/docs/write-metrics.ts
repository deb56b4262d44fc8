import { readFileSync, writeFileSync } from 'node:fs'
import { METRICS_PAGE, withCurrentMetrics } from './metrics-table.ts'

writeFileSync(METRICS_PAGE, withCurrentMetrics(readFileSync(METRICS_PAGE, 'utf8')))
