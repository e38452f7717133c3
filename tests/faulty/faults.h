/*
 * The faults of the faulty server: for each its identifier, its name on the command line, what it
 * does, and the tests of the conformance suite that must catch it (suite/test, separated by spaces;
 * run.sh demands that every one of them fails).
 *
 * A new promise in the suite deserves a line here, and the few lines in faulty_server.c that break
 * it: a test that was never seen to fail proves nothing.
 */
#ifndef TESTS_FAULTS_H
#define TESTS_FAULTS_H

// clang-format off
#define FAULTS(FAULT)                                                                              \
    FAULT(LOSES_A_BYTE, "loses-a-byte",                                                            \
          "every 50th reply lacks its first byte",                                                 \
          "pipelining/case_02_hundred_requests_in_one_segment")                                    \
    FAULT(ADDS_A_BYTE, "adds-a-byte",                                                              \
          "every 50th reply has one byte too many",                                                \
          "pipelining/case_02_hundred_requests_in_one_segment")                                    \
    FAULT(SWAPS_TWO_REPLIES, "swaps-two-replies",                                                  \
          "of two waiting lines the second goes first",                                            \
          "pipelining/case_02_hundred_requests_in_one_segment")                                    \
    FAULT(DUPLICATES_A_REPLY, "duplicates-a-reply",                                                \
          "every 50th line is answered twice",                                                     \
          "pipelining/case_02_hundred_requests_in_one_segment")                                    \
    FAULT(ECHOES_WRONG_CLIENT, "echoes-wrong-client",                                              \
          "every 3rd reply goes to another client",                                                \
          "echo/each_client_gets_its_own_lines")                                                   \
    FAULT(ANSWERS_LATE, "answers-late",                                                            \
          "a reply leaves only when a further byte comes",                                         \
          "echo/one_line "                                                                         \
          "echo/case_01_one_byte_at_a_time")                                                       \
    FAULT(ONE_LINE_A_READ, "one-line-a-read",                                                      \
          "answers one line of each read, drops the rest",                                         \
          "pipelining/erratum_14_every_request_of_one_read_is_answered")                           \
    FAULT(BUFFER_OF_1024, "buffer-of-1024",                                                        \
          "a line longer than its buffer of 1024 never ends",                                      \
          "echo/erratum_01_line_longer_than_1024_bytes")                                           \
    FAULT(EATS_EMPTY_LINES, "eats-empty-lines",                                                    \
          "an empty line gets no reply",                                                           \
          "echo/empty_lines")                                                                      \
    FAULT(SPLITS_ON_NUL, "splits-on-nul",                                                          \
          "a reply ends at the first NUL byte of its line",                                        \
          "echo/nul_bytes "                                                                        \
          "echo/every_byte_value")                                                                 \
    FAULT(STRIPS_CR, "strips-cr",                                                                  \
          "CR LF comes back as LF",                                                                \
          "echo/cr_lf_comes_back_as_cr_lf")                                                        \
    FAULT(LIMIT_COUNTS_CR, "limit-counts-cr",                                                      \
          "the CR of CR LF counts against --max-line",                                             \
          "line_limit/longest_line_with_cr_lf")                                                    \
    FAULT(NO_LIMIT_ON_LINE, "no-limit-on-line",                                                    \
          "--max-line is not enforced",                                                            \
          "line_limit/one_byte_too_long "                                                          \
          "line_limit/case_17_endless_line")                                                       \
    FAULT(LIMIT_ONLY_AT_LF, "limit-only-at-lf",                                                    \
          "a line's length is checked when its LF comes",                                          \
          "line_limit/case_17_endless_line")                                                       \
    FAULT(WRONG_ERROR_LINE, "wrong-error-line",                                                    \
          "a line too long gets another error line",                                               \
          "line_limit/one_byte_too_long")                                                          \
    FAULT(ERROR_OVERTAKES_REPLIES, "error-overtakes-replies",                                      \
          "the error line discards the replies that wait",                                         \
          "line_limit/case_25_error_line_while_output_waits")                                      \
    FAULT(RESETS_INSTEAD_OF_LINGERING, "resets-instead-of-lingering",                              \
          "closes at once after the error line, with input unread: a reset",                       \
          "line_limit/lingers_while_the_client_sends")                                             \
    FAULT(NEVER_CLOSES, "never-closes",                                                            \
          "does not close when the client has ended",                                              \
          "half_close/nothing_sent "                                                               \
          "half_close/case_07_in_the_middle_of_a_line")                                            \
    FAULT(KEEPS_UNFINISHED_LINE, "keeps-unfinished-line",                                          \
          "echoes what is unfinished at the end",                                                  \
          "half_close/case_07_in_the_middle_of_a_line")                                            \
    FAULT(DROPS_LAST_LINE_ON_HALF_CLOSE, "drops-last-line-on-half-close",                          \
          "the client's end discards the reply to its last line",                                  \
          "half_close/whole_lines_before_the_end_are_answered")                                    \
    FAULT(DROPS_OUTPUT_ON_HALF_CLOSE, "drops-output-on-half-close",                                \
          "the client's end discards the output that waits",                                       \
          "half_close/case_06_with_output_pending")                                                \
    FAULT(DIES_ON_RESET, "dies-on-reset",                                                          \
          "ends when a client resets its connection",                                              \
          "hostile_peers/case_10_reset_costs_that_client_only")                                    \
    FAULT(DIES_ON_SIGPIPE, "dies-on-sigpipe",                                                      \
          "writes without guarding against SIGPIPE",                                               \
          "hostile_peers/case_10_reset_costs_that_client_only")                                    \
    FAULT(CLOSES_A_STRANGER, "closes-a-stranger",                                                  \
          "a client's reset closes somebody else's connection, too",                               \
          "hostile_peers/case_24_descriptors_reused_under_load")                                   \
    FAULT(LEAKS_DESCRIPTORS, "leaks-descriptors",                                                  \
          "ends a connection but keeps its descriptor",                                            \
          "descriptors/case_23_two_thousand_clients_one_after_another")                            \
    FAULT(DIES_AT_EMFILE, "dies-at-emfile",                                                        \
          "ends when accept finds no descriptor",                                                  \
          "descriptors/case_19_out_of_descriptors")                                                \
    FAULT(SPINS_AT_EMFILE, "spins-at-emfile",                                                      \
          "leaves the pending connection and looks again",                                         \
          "descriptors/case_19_out_of_descriptors "                                                \
          "descriptors/case_19_does_not_spin")                                                     \
    FAULT(SILENT_AT_EMFILE, "silent-at-emfile",                                                    \
          "lets the client wait when out of descriptors",                                          \
          "descriptors/case_19_out_of_descriptors")                                                \
    FAULT(NO_BUSY_LINE, "no-busy-line",                                                            \
          "closes a client over the limit without a word",                                         \
          "overload/case_21_client_over_the_limit_is_told")                                        \
    FAULT(NO_REDIRECT, "no-redirect",                                                              \
          "does not name the other server",                                                        \
          "overload/case_21_redirect_names_the_other_server")                                      \
    FAULT(IGNORES_WAIT, "ignores-wait",                                                            \
          "serves clients over the limit that should wait",                                        \
          "overload/case_22_wait_serves_the_next_when_one_leaves")                                 \
    FAULT(NEVER_FREES_A_PLACE, "never-frees-a-place",                                              \
          "a client that left still counts",                                                       \
          "overload/case_22_one_leaves_the_next_gets_in "                                          \
          "overload/case_22_wait_serves_the_next_when_one_leaves")                                 \
    FAULT(ACCEPTS_EIGHT, "accepts-eight",                                                          \
          "after eight clients of a burst accepts no more",                                        \
          "descriptors/erratum_15_burst_of_connections")                                           \
    FAULT(UNBOUNDED_OUTPUT, "unbounded-output",                                                    \
          "goes on reading however much output waits",                                             \
          "output/case_11_client_never_reads "                                                     \
          "output/erratum_05_memory_is_bounded")                                                   \
    FAULT(BLOCKS_ON_NON_READER, "blocks-on-non-reader",                                            \
          "waits in write for a client",                                                           \
          "output/client_that_never_reads_delays_nobody")                                          \
    FAULT(NEVER_RESUMES, "never-resumes",                                                          \
          "never reads again once the high mark was passed",                                       \
          "output/reading_resumes_under_the_low_mark")                                             \
    FAULT(STARVES_OTHERS, "starves-others",                                                        \
          "answers all a client has sent before the next one",                                     \
          "fairness/case_29_firehose_starves_nobody")                                              \
    FAULT(SPINS, "spins",                                                                          \
          "never sleeps",                                                                          \
          "idle/server_uses_no_cpu")                                                               \
    FAULT(SPINS_ON_CONNECTIONS, "spins-on-connections",                                            \
          "always asks for writability",                                                           \
          "idle/connections_use_no_cpu")                                                           \
    FAULT(SPINS_ON_UNFINISHED_LINE, "spins-on-unfinished-line",                                    \
          "spins while a line is unfinished",                                                      \
          "idle/unfinished_line_uses_no_cpu")                                                      \
    FAULT(SPINS_WHILE_SUSPENDED, "spins-while-suspended",                                          \
          "asks for input it does not read",                                                       \
          "idle/case_27_suspended_reading_uses_no_cpu")                                            \
    FAULT(NO_IDLE_TIMEOUT, "no-idle-timeout",                                                      \
          "--idle-timeout does nothing",                                                           \
          "timeouts/idle_client_is_closed "                                                        \
          "timeouts/case_16_idle_timeout_fires_again")                                             \
    FAULT(IDLE_TIMEOUT_ONCE, "idle-timeout-once",                                                  \
          "only one client is ever closed for idling",                                             \
          "timeouts/case_16_idle_timeout_fires_again")                                             \
    FAULT(IDLE_TIMEOUT_IGNORES_TRAFFIC, "idle-timeout-ignores-traffic",                            \
          "traffic does not put the idle timeout off",                                             \
          "timeouts/case_16_idle_timeout_fires_again")                                             \
    FAULT(NO_REQUEST_TIMEOUT, "no-request-timeout",                                                \
          "--request-timeout does nothing",                                                        \
          "timeouts/case_14_half_a_line_then_silence "                                             \
          "timeouts/case_15_one_byte_at_a_time")                                                   \
    FAULT(REQUEST_TIMEOUT_REARMED, "request-timeout-rearmed",                                      \
          "any byte puts it off",                                                                  \
          "timeouts/case_15_one_byte_at_a_time")                                                   \
    FAULT(REQUEST_TIMEOUT_WHEN_IDLE, "request-timeout-when-idle",                                  \
          "the request timeout runs while no line is unfinished, too",                             \
          "timeouts/request_timeout_spares_quiet_clients")                                         \
    FAULT(NO_LIFETIME, "no-lifetime",                                                              \
          "--lifetime does nothing",                                                               \
          "timeouts/lifetime_ends")                                                                \
    FAULT(NO_PROGRESS_TIMEOUT, "no-progress-timeout",                                              \
          "--progress-timeout does nothing",                                                       \
          "timeouts/case_12_output_stays_over_the_mark")                                           \
    FAULT(PROGRESS_BY_ONE_BYTE, "progress-by-one-byte",                                            \
          "any byte taken counts as progress",                                                     \
          "timeouts/case_13_slow_reader")                                                          \
    FAULT(IGNORES_SIGTERM, "ignores-sigterm",                                                      \
          "goes on after SIGTERM",                                                                 \
          "shutdown/case_39_idle_server_exits_0")                                                  \
    FAULT(IGNORES_SIGINT, "ignores-sigint",                                                        \
          "goes on after SIGINT",                                                                  \
          "shutdown/sigint_exits_0")                                                               \
    FAULT(EXIT_STATUS_1_ON_SIGTERM, "exit-status-1-on-sigterm",                                    \
          "exits with 1",                                                                          \
          "shutdown/case_39_idle_server_exits_0")                                                  \
    FAULT(LOSES_OUTPUT_ON_SIGTERM, "loses-output-on-sigterm",                                      \
          "discards the output that waits",                                                        \
          "shutdown/case_39_waiting_output_is_flushed")                                            \
    FAULT(LOSES_INPUT_ON_SIGTERM, "loses-input-on-sigterm",                                        \
          "discards lines not answered yet",                                                       \
          "shutdown/case_39_lines_already_received_are_answered")                                  \
    FAULT(ACCEPTS_WHILE_DRAINING, "accepts-while-draining",                                        \
          "keeps listening after SIGTERM",                                                         \
          "shutdown/case_39_new_clients_are_refused")                                              \
    FAULT(RESETS_WHILE_DRAINING, "resets-while-draining",                                          \
          "closes at a stop while a client still sends",                                           \
          "shutdown/case_39_answers_arrive_although_the_client_still_sends")                       \
    FAULT(RESETS_THOSE_WHO_WAIT, "resets-those-who-wait",                                          \
          "closes the listener on clients that have connected",                                    \
          "shutdown/case_39_clients_that_were_not_accepted_yet_are_answered")                      \
    FAULT(FORGETS_NEWCOMERS, "forgets-newcomers",                                                  \
          "takes no first line after SIGTERM",                                                     \
          "shutdown/case_39_a_first_message_may_come_after_the_signal")                            \
    FAULT(NO_DRAIN_TIMEOUT, "no-drain-timeout",                                                    \
          "waits forever for a stuck reader",                                                     \
          "shutdown/case_39_stuck_reader_is_cut_at_the_deadline")                                  \
    FAULT(NO_DRAIN, "no-drain",                                                                    \
          "cuts a reader at once",                                                                 \
          "shutdown/case_39_waiting_output_is_flushed "                                            \
          "shutdown/case_39_stuck_reader_is_cut_at_the_deadline")                                  \
    FAULT(NO_SECOND_SIGNAL, "no-second-signal",                                                    \
          "a second SIGTERM changes nothing",                                                      \
          "shutdown/case_39_second_signal_ends_at_once")                                           \
    FAULT(DIES_ON_EINTR, "dies-on-eintr",                                                          \
          "takes an interrupted call for an error",                                                \
          "stats/sigusr1_prints_counters "                                                         \
          "stats/case_37_signals_by_the_thousand")                                                 \
    FAULT(HOLDS_ANSWERS_WHILE_BLOCKED, "holds-answers-while-blocked",                              \
          "answers wait until the next message has been paid for",                                 \
          "costs/answers_leave_before_the_next_message_blocks")                                    \
    FAULT(COSTS_NOTHING, "costs-nothing",                                                          \
          "no message costs anything",                                                             \
          "costs/block_ms "                                                                        \
          "costs/work_us "                                                                         \
          "costs/one_message_in_n_pays")                                                           \
    FAULT(EVERY_MESSAGE_PAYS, "every-message-pays",                                                \
          "--cost-every does nothing",                                                             \
          "costs/one_message_in_n_pays")                                                           \
    FAULT(NO_STATS_AT_EXIT, "no-stats-at-exit",                                                    \
          "--stats prints nothing",                                                                \
          "stats/counters_at_exit")                                                                \
    FAULT(WRONG_STATS, "wrong-stats",                                                              \
          "counts every message twice",                                                            \
          "stats/counters_at_exit "                                                                \
          "stats/sigusr1_prints_counters")                                                         \
    FAULT(SILENT_READY, "silent-ready",                                                            \
          "the ready line is never flushed",                                                       \
          "startup/ready_line")                                                                    \
    FAULT(WRONG_READY_LINE, "wrong-ready-line",                                                    \
          "the ready line has other words",                                                        \
          "startup/ready_line")                                                                    \
    FAULT(PORT_TAKEN_EXIT_0, "port-taken-exit-0",                                                  \
          "exits with 0 when it cannot listen",                                                    \
          "startup/port_is_taken")                                                                 \
    FAULT(SHARES_ITS_PORT, "shares-its-port",                                                      \
          "SO_REUSEPORT: a second server starts, too",                                             \
          "startup/port_is_taken")                                                                 \
    FAULT(NO_REUSEADDR, "no-reuseaddr",                                                            \
          "cannot listen where a connection was just closed",                                      \
          "startup/port_is_free_again_after_the_end")                                              \
    FAULT(ACCEPTS_BAD_PORT, "accepts-bad-port",                                                    \
          "reads a port number with atoi",                                                         \
          "usage/bad_port")                                                                        \
    FAULT(ACCEPTS_BAD_VALUES, "accepts-bad-values",                                                \
          "checks no value but a port number",                                                     \
          "usage/bad_numbers "                                                                     \
          "usage/bad_seconds "                                                                     \
          "usage/bad_choices "                                                                     \
          "usage/bad_address")                                                                     \
    FAULT(EXIT_STATUS_1_ON_BAD_USAGE, "exit-status-1-on-bad-usage",                                \
          "exits with 1 for bad usage",                                                            \
          "usage/unknown_option "                                                                  \
          "usage/bad_port "                                                                        \
          "usage/missing_value")                                                                   \
    FAULT(IGNORES_UNKNOWN_OPTIONS, "ignores-unknown-options",                                      \
          "takes no notice of them",                                                               \
          "usage/unknown_option")                                                                  \
    FAULT(NO_HELP, "no-help",                                                                      \
          "--help prints nothing",                                                                 \
          "usage/help_lists_every_option")                                                         \
    FAULT(NO_VERSION, "no-version",                                                                \
          "--version is taken for --help",                                                         \
          "usage/version")
// clang-format on

#endif
