import { Gauge, type Registry, type RegistryContentType } from 'prom-client'
import { CollectedGauge, HandleCounter, HandleHistogram } from './metric-handles.ts'

export type MetricRegistry = Registry<RegistryContentType>
export type MetricDeclarations = ReturnType<typeof metricDeclarations>

export const LATENCY_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Functions that declare a metric and register it. @param registers empty if the metric is not exposed */
export function metricDeclarations(registers: MetricRegistry[]) {
  return {
    counter: <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
      new HandleCounter({ name, help, labelNames, registers }),
    gauge: <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
      new Gauge({ name, help, labelNames, registers }),
    collected: <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
      new CollectedGauge({ name, help, labelNames, registers }),
    histogram: <Label extends string>(
      name: string,
      help: string,
      labelNames: readonly Label[] = [],
      buckets: readonly number[] = LATENCY_SECONDS,
    ) => new HandleHistogram({ name, help, labelNames, buckets, registers }),
  }
}
