import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

/** Sends requests with the default HttpClient, which offers HTTP/2. Arguments: method, address, token, body or "-". */
public class Client {
  public static void main(String[] arguments) throws Exception {
    HttpClient client = HttpClient.newHttpClient();
    for (int index = 0; index < arguments.length; index += 4) {
      String body = arguments[index + 3];
      boolean continues = body.startsWith("continue:");
      String text = continues ? body.substring("continue:".length()) : body;
      HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[index + 1]))
        .timeout(Duration.ofSeconds(20))
        .header("Authorization", "Bearer " + arguments[index + 2])
        .header("Content-Type", "application/json")
        .expectContinue(continues)
        .method(
          arguments[index],
          text.equals("-")
            ? HttpRequest.BodyPublishers.noBody()
            : HttpRequest.BodyPublishers.ofString(text))
        .build();
      System.out.println(client.send(request, HttpResponse.BodyHandlers.ofString()).statusCode());
    }
  }
}
