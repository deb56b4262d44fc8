import type { MetricDeclarations } from './metric-declarations.ts'

/** What a gateway reports to the key service about the use of keys. */
export function declareUsage({ counter, collected }: MetricDeclarations) {
  return {
    usageReportsSent: counter(
      'postern_usage_reports_sent_total',
      'Usage reports sent, by outcome; `failed`: to be repeated, `rejected`: dropped',
      ['outcome'],
    ),
    usageReportDelay: collected(
      'postern_usage_report_delay_seconds',
      'Time since the first failure of the current usage report, in seconds; 0 if it did not fail',
    ),
    usageEntries: collected('postern_usage_entries', 'Entries of unreported usage in memory'),
    usageFolded: counter(
      'postern_usage_folded_total',
      'Requests counted by workspace instead of by key, because the memory for usage was full',
    ),
    usageLost: counter(
      'postern_usage_lost_total',
      'Requests missing in the usage of all keys, by cause; `memory`: it was full, `refused`: by the key service',
      ['cause'],
    ),
    usageExports: counter(
      'postern_usage_exports_total',
      'Requests to the usage collector, by outcome; `failed`: to be repeated, `dropped`: rejected, or too many waited',
      ['outcome'],
    ),
    usageRefusalsOmitted: counter(
      'postern_usage_refusals_omitted_total',
      'Refused requests that were counted, but not reported one by one',
    ),
  }
}
